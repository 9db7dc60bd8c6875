"""``python -m tests.robustness``, see :mod:`.engine`."""

import sys

from .engine import main

sys.exit(main())
