"""Which queries can be brought up to date from the changes of their inputs, and how. Pure: text in, facts out."""
