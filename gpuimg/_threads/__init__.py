"""Number of worker threads, and helpers for running them."""
