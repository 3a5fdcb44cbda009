"""The built-in tools and the permissions under which they run. `builtin.py` lists them."""
