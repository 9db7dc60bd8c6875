"""The CPU runtime's loops: one image at a time, a planar float32 row at a time, no GIL."""
