"""The client side of the server: a store over HTTP."""
