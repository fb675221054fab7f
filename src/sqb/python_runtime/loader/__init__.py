"""What a loader returns, as Arrow files of one schema."""
