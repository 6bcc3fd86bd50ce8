"""What a step costs: over a bare call, over a bare sync, and over others that keep such a record."""
