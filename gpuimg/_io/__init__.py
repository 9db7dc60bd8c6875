"""Reading of regular files, whole or in parts, natively or in Python."""
