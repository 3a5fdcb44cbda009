"""Context: what the model is told."""
