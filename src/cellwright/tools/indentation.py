"""Source text moved to another indentation, as an editor would paste it."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from cellwright.tools.languages import PYTHON, Grammar, parse

if TYPE_CHECKING:
    from tree_sitter import Node

DEFAULT_UNIT = "    "
_STRINGS = re.compile(r"string|text_block|heredoc")


def indentation_unit(text: str, default: str = DEFAULT_UNIT) -> str:
    """One step of indentation in `text`: a tab, or so many blanks."""
    steps: Counter[str] = Counter()
    before = ""
    for line in text.split("\n"):
        if not line.strip():
            continue
        indent = _indent(line)
        if len(indent) > len(before) and indent.startswith(before):
            steps[indent[len(before) :]] += 1
        before = indent
    likely = [step for step, _ in steps.most_common() if step == "\t" or (2 <= len(step) <= 8 and not step.strip(" "))]
    return likely[0] if likely else default


def indented(new: str, indent: str, unit: str, grammar: Grammar) -> list[str]:
    """The lines of `new`, without line ends, its first one at `indent`; steps of indentation become `unit`s if it has tabs.

    The lines inside of a string stay as they are, but for Python's docstrings.
    """
    lines = new.replace("\r\n", "\n").strip("\n").rstrip().split("\n")
    kept = _lines_in_strings("\n".join(lines), grammar)
    movable = [line for number, line in enumerate(lines) if number not in kept and line.strip()]
    base = _indent(movable[0]) if movable else ""
    theirs = indentation_unit("\n".join(movable), unit)
    shift = not _only_first_is_bare(movable, indent, unit, grammar)
    result = []
    for number, line in enumerate(lines):
        if number in kept:
            result.append(line)
        elif not line.strip():
            result.append("")
        elif not shift and number:
            result.append(line)
        else:
            own = _indent(line)
            rest = own.removeprefix(base)
            if ("\t" in theirs) != ("\t" in unit):
                rest = rest.replace(theirs, unit)
            result.append(indent + rest + line[len(own) :])
    return result


def _only_first_is_bare(lines: list[str], indent: str, unit: str, grammar: Grammar) -> bool:
    """Whether all lines are where they belong but the first: copied from a file from its first letter on."""
    if not indent or len(lines) < 2 or _indent(lines[0]):
        return False
    least = min((_indent(line) for line in lines[1:]), key=len)
    if grammar is PYTHON:
        return least == indent + unit
    return least == indent and _indent(lines[-1]) == indent and lines[-1].strip().startswith(("}", ")", "]"))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _lines_in_strings(text: str, grammar: Grammar) -> set[int]:
    """The lines, from 0, that begin inside of a string."""
    found: set[int] = set()
    waiting = [parse(grammar, text.encode("utf-8", "surrogatepass")).root_node]
    while waiting:
        node = waiting.pop()
        if node.end_point.row == node.start_point.row:
            continue
        if _STRINGS.search(node.type):
            if not (grammar is PYTHON and _is_docstring(node)):
                found.update(range(node.start_point.row + 1, node.end_point.row + 1))
        else:
            waiting += node.children
    return found


def _is_docstring(node: Node) -> bool:
    statement = node.parent
    if statement is None or statement.type != "expression_statement" or statement.named_child_count != 1:
        return False
    block = statement.parent
    return block is not None and block.named_children[0] == statement
