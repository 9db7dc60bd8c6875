"""Checks and measurements on a GPU: every claim about it as a number, in ten minutes, unattended.

``python -m bench.gpu --out DIR`` runs it; see :mod:`bench.gpu.__main__`. One module holds one part: ``run(context)``
measures and records, ``claims(results)`` returns the problems and the findings as sentences. Each part runs in a
separate process and may fail, hang or crash without losing what the others measured.
"""
