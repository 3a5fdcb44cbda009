"""The measures: each is a function that takes the environment and returns rows."""
