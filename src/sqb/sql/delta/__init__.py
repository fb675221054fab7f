"""What is proven about following changes through a query."""
