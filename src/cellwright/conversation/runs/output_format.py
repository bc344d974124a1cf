"""The formats in which answers can be written, in a terminal and by a cell.

A module of its own: loading the extension needs these names, and none of what reads a command line.
"""

from __future__ import annotations

from typing import Literal, get_args

OutputFormat = Literal["text", "json", "json-lines"]
FORMATS: tuple[OutputFormat, ...] = get_args(OutputFormat)
