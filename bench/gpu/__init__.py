"""Checks and measurements of a GPU: five scripts, each of which prints one line of JSON for each result.

``bench/gpu/run.sh`` runs them in the order of their importance, each within a time limit; docs/gpu.md explains their
results. None of them has run on a GPU yet.
"""
