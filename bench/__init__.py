"""Benchmarks: plain scripts, one per subject; results as measured in ``results/``."""
