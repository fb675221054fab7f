"""Commands about the files of a project."""
