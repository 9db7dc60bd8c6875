"""Run the ``gpuimg`` command as ``python -m gpuimg``."""

import sys

from ._cli.main import main

sys.exit(main())
