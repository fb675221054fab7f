"""Python nodes: discovering them, what they are made of, what their decorators take."""
