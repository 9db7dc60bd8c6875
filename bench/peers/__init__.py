"""The same preprocessing done by gpuimg and by its peers, each as its own documentation does it.

``python -m bench.peers`` runs it; see :mod:`bench.peers.__main__`. One module holds one peer, or a few that share their
code; :mod:`bench.peers.base` says what is asked of them.
"""
