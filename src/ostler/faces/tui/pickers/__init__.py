"""Panels to choose from: one kind of list for everything, and what else is asked of a person in passing."""
