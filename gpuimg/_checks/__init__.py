"""Validation of arguments, and types of annotations."""
