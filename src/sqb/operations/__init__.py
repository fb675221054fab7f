"""What the command line and the Python API both do, from an opened project to a value: nothing here is printed."""
