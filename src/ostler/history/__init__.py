"""What is computed from logs: items, trees, exports, costs, audit, replay."""
