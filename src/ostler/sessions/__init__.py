"""Runs: what holds a session open, takes up its requests, and drives it on."""
# MERGED: Watching a session live, wherever it is driven: what is open so far, and everything new.
