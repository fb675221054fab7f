"""What commands do, in rooms: each module calls an operation, prints its result and returns the exit code."""
