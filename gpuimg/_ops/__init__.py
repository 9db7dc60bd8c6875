"""The functions on batches, which record; and targets that follow the geometry."""
