"""What is true: tables, views and state in a catalog and a storage. The only importer of pyiceberg."""
