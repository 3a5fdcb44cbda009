"""What a person can say with a slash: a registry, and one module for each group of commands."""
