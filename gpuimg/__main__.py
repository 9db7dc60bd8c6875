"""``python -m gpuimg`` is the ``gpuimg`` command."""

import sys

from .cli import main

sys.exit(main())
