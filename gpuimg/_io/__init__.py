"""Reading bytes of files: regular files only, whole or in parts, natively or in Python."""
