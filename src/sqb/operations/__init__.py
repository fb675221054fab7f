"""What the command line and the Python API both do: one function a command, from an opened project to a value."""
