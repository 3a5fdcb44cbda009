"""Models: one module a wire, the transport beneath them, and the scripted model for tests and the demo."""
