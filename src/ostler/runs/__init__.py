"""Runs: what holds a session open, takes up its requests, and drives it on."""
