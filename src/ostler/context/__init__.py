"""Context: what the model gets."""
