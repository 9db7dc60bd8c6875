"""The recorded operations of a batch, and their compilation for the kernels."""
