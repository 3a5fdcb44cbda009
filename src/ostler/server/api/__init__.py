"""The routes of API v1, a module for each group."""
