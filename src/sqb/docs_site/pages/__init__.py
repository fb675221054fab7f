"""One module for each kind of page: from the document to markup."""
