"""Batches: the class, opening files as batches, and hand-off to frameworks."""
