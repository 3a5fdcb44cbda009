"""The programs that the measures start, each in its own process."""
