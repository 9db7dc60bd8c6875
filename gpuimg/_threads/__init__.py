"""How many threads work, and how they work together."""
