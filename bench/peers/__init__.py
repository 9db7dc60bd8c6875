"""The same preprocessing by gpuimg and by its peers, each as in its documentation.

``python -m bench.peers`` runs it; see :mod:`bench.peers.__main__`. One module holds one peer, or a few that share their
code; :mod:`bench.peers.base` defines their interface and the works.
"""
