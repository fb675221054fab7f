"""Virtual environments: views on the tables of versions, and the store that knows them."""
