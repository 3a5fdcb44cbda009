"""Measures Ostler against a hand-written agent loop and bare Python: `python -m bench`."""
