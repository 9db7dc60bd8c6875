"""The loader: sharding, reading, and pipelines that compute batches ahead of their consumer."""
