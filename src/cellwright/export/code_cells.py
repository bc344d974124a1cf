"""What Claude ran, as ordinary cells: its Python, its commands. The notebook then works without Claude."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cellwright.sessions.export.exchanges import Called, Exchange

_PLAIN_COMMAND = re.compile(r"[^\n$`{}!?\\%]{1,200}")
"""A command that `!` runs as it is: IPython would put variables in for `$` and braces."""


def code_cells(exchanges: Sequence[Exchange]) -> list[str]:
    """The sources of the cells, in the order in which the calls were made; what failed is left out."""
    return [source for exchange in exchanges for call in exchange.calls if (source := _source(call)) is not None]


def changed_files(exchanges: Sequence[Exchange]) -> list[str]:
    """The files that were edited by tools: the cells do not do that again."""
    return list(dict.fromkeys(path for exchange in exchanges for call in exchange.calls for path in _edited(call)))


def _source(call: Called) -> str | None:
    if not call.done:
        return None
    if call.name == "Python":
        return str(call.input.get("code", "")).strip("\n") or None
    # what runs on in the background belongs to a session, not to a notebook
    if call.name != "Bash" or call.input.get("run_in_background"):
        return None
    command = str(call.input.get("command", "")).strip("\n")
    if not command.strip():
        return None
    return f"!{command}" if _PLAIN_COMMAND.fullmatch(command) else f"%%bash\n{command}"


def _edited(call: Called) -> Iterator[str]:
    if call.done and call.name in ("Write", "Edit", "MultiEdit", "EditSymbol"):
        yield str(call.input.get("file_path", ""))
    elif call.done and call.name == "ApplyPatch":
        yield "the files of a patch"
