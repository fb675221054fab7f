TITLE = "Revenue"


def title():
    return TITLE
