"""From text and data to rows of a terminal: at a width, in the colours of a theme or in none."""
