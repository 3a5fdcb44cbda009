"""Finding, loading, trusting and renewing extensions."""
