"""Watching a session live, wherever it is driven: what is open so far, and everything new."""
