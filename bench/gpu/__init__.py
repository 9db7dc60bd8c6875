"""The proof on a GPU: every claim about it as a number, in ten minutes, unattended.

``python -m bench.gpu --out DIR`` runs it; see :mod:`bench.gpu.__main__`. One module holds one part: ``run(context)``
measures and records, ``claims(results)`` says in words what was found, ``advice(results)`` what to do with it. Parts
run in processes of their own and may fail, hang or crash without losing what the others measured.
"""
