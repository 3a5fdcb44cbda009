"""The terminal UI as plain lines, for screen readers and simple terminals."""
