"""Functions on batches, which record operations, and targets that follow the recorded geometry."""
