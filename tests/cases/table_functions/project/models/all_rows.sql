SELECT key, seen FROM counted(TABLE(days))
