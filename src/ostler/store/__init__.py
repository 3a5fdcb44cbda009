"""Stores for facts, leases, requests and blobs: in memory, or in one SQLite file."""
