"""Checks of what callers pass, and the array types of annotations."""
