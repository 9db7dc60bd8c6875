"""Random numbers, and the functions that draw them and then call those of ``_ops``."""
