"""What is recorded for a batch, and its compilation for the kernels."""
