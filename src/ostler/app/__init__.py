"""Faces: ways in for people and programs. Each is a client of `ostler.sessions`."""
