"""The names that options of a run may have, in a terminal and in a cell.

A module of its own: loading the extension needs these names, and none of what reads a command line.
"""

from __future__ import annotations

from typing import Literal, get_args

OutputFormat = Literal["text", "json", "json-lines"]
FORMATS: tuple[OutputFormat, ...] = get_args(OutputFormat)

OnDenied = Literal["ask", "skip", "error"]
ON_DENIED: tuple[OnDenied, ...] = get_args(OnDenied)
"""The ways to deal with a call that needs a permission: ask for it, go on without the call, or end the run."""
