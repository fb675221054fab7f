"""What a commit records of the rows that it made: their identity, their inputs, states of groups and timings."""
