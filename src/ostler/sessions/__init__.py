"""Sessions: opening, driving and following them, wherever they are driven."""
