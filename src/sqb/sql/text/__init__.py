"""SQL by its tokens, without a parser."""
