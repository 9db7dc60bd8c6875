"""The batch: what it is, how files become one, and how it is handed to frameworks."""
