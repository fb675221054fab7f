"""The write of a loader: its rows become a commit on the table of a source."""
