"""Python packages of macros, audits and functions: which versions a project takes, and where their files are."""
