def first(word):
    return word[0]
