"""Where facts are kept: append, read, follow, lease, inbox, blobs. In memory, or in one SQLite file."""
