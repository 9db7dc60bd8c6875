"""What a GPU does, whether it is right, and how fast: ``make gpu``, see :mod:`bench.gpu.__main__`.

None of it has run on a GPU yet; tests/bench rehearses it on a fake one.
"""

from contextlib import suppress

# numba-cuda 0.30 asks for a function that NumPy 2.5 has no more; the versions of a GPU machine are not ours to choose.
with suppress(ImportError):
    import numpy

    if not hasattr(numpy, "row_stack"):
        numpy.row_stack = numpy.vstack  # noqa: NPY201
