"""Fixtures of the server's room."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves a test's own folder out
sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))  # what every open notebook must do
