"""What it costs to find what a killed process left open, and to undo it, beside everything that needs nothing."""
