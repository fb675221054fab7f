WORD = "!"
