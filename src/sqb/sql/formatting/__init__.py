"""Laying out SQL: the tokens stay what they are, only the white space between them and the case of keywords change."""
