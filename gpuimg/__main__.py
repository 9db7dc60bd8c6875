"""``python -m gpuimg`` is the ``gpuimg`` command."""

import sys

from ._cli.main import main

sys.exit(main())
