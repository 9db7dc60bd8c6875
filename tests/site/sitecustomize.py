"""Programs that tests start can import torchvision, like the tests: this folder is on their PYTHONPATH."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench.torchvision_import import define_on_import

del sys.path[0]
define_on_import()
