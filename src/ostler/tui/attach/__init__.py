"""Showing, in this terminal, a session that a server has."""
