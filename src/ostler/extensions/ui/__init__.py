"""What extensions show to people and ask of them."""
