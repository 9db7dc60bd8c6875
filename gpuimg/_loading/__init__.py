"""Feeding a training loop: reading, order, threads, batches ahead of their consumer."""
