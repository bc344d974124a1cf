"""The examples beside the tests of secrets, where imports find them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves a test's own folder out
