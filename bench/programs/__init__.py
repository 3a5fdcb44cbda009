"""What the measures start, each in a process of its own."""
