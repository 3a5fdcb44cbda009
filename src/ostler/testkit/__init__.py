"""What Ostler is tested with, for those who build on it: scripted model, fake vendors, simulator, invariants."""
