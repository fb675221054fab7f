"""One module a kind: how a node of that kind gets its rows to where readers see them."""
