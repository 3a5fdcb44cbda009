"""A wire is how a vendor's API is spoken: a request encoder and a stream decoder for each."""
