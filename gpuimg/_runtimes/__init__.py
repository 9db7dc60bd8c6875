"""The runtimes of the two kinds of devices: memory, decoding into it, running plans."""
