"""What a GPU does, whether it is right, and how fast: ``make gpu``, see :mod:`bench.gpu.__main__`.

None of it has run on a GPU yet; tests/bench rehearses it on a fake one.
"""

import os
from contextlib import suppress

#: Module with a fake GPU, ``device()``, and tiny ``photos()``, for a try without a GPU: everything is measured once.
REHEARSAL = os.environ.get("GPU_REHEARSAL")

# numba-cuda 0.30 asks for a function that NumPy 2.5 has no more; the versions of a GPU machine are not ours to choose.
with suppress(ImportError):
    import numpy

    vars(numpy).setdefault("row_stack", numpy.vstack)
