"""Run the ``gpuimg`` command as ``python -m gpuimg``."""

import sys

from _gpuimg_cli import main

sys.exit(main())
