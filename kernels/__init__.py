"""Device code: what one pixel goes through, written once, and the loops over it for CPU and CUDA.

Nothing here imports from ``gpuimg``; installed as ``gpuimg.kernels``.
"""
