"""The terminal UI: one session in the terminal's own scrollback, with the open tail below it."""
