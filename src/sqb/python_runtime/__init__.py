"""What runs in the child processes in which users' Python code runs."""
