"""Measurements of a GPU: three scripts, each of which prints one line of JSON for each result.

``bench/gpu/run.sh`` runs them and the tests that a GPU needs, in the order of their importance, each within a time
limit; docs/gpu.md explains their results. None of them has run on a GPU yet.
"""
