"""The ``gpuimg`` command."""
