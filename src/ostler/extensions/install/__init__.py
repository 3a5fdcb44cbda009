"""Packages of extensions: where they come from, and how they are installed."""
