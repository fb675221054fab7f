"""Rules of style and care: what is no mistake, and that a team does not want all the same."""
