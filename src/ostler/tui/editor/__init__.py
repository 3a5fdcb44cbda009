"""What concerns the line to type in, without a terminal: pure, and tested so."""
