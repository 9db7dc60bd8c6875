"""The two devices: memory, decoding into it, running plans."""
