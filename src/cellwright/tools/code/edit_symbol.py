"""EditSymbol: a function, method, class or type replaced, deleted or given a neighbour, by its name.

A definition is taken out of a text, or another is put in its place or beside it, moved to the indentation of the
place as an editor would paste it, with the blank lines that belong between.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.codebase.grammars import BASH, PYTHON, Grammar, grammar_of, is_installed, parse
from cellwright.codebase.symbol_outline import LANGUAGES, Definition, definitions
from cellwright.errors import ErrorCode, ToolError, needs_extra
from cellwright.events import Preview
from cellwright.text import lazy_pattern
from cellwright.tools.files.changes import Change, FilesOutput, Plan, make_change, preview_change
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.patched_files import split_lines
from cellwright.tools.files.replace import check_size, on_disk, stale_error, update
from cellwright.tools.files.text import main_line_end
from cellwright.tools.inputs import SYMBOL_NAMES, AllowSyntaxErrors, FilePath
from cellwright.tools.paths import not_found, real_path, shown_path

if TYPE_CHECKING:
    from tree_sitter import Node

PARSED_BYTES = 2 * 2**20
"""A syntax tree takes many times the memory of its text."""

PLACES_NAMED = 20

DESCRIPTION = f"""\
Replace, delete, or insert beside a function, method, class or type, found by its name ({", ".join(LANGUAGES)}).
- Read the file first. symbol is `name` or `Class.method`. Where several fit, the error lists them: set occurrence.
- Decorators, annotations and `export` are part of it: repeat them in new_source. A comment right above it is deleted with \
it, but stays when it is replaced, unless new_source begins with a comment.
- new_source is moved to the place's indentation; blank lines between definitions are put in."""

Action = Literal["replace", "insert_before", "insert_after", "delete"]


class EditSymbolInput(ToolInput):
    """The input of EditSymbol."""

    aliases: ClassVar = SYMBOL_NAMES
    file_path: FilePath
    symbol: Annotated[str, Meta(min_length=1, description="Its name: `name` or `Class.method`.")]
    action: Annotated[Action, Meta(description="What to do.")]
    new_source: Annotated[str, Meta(description="The new definition; not for delete.")] = ""
    occurrence: (
        Annotated[int, Meta(ge=1, description="Which one of several with this name, as the error numbers them.")] | None
    ) = None
    allow_syntax_errors: AllowSyntaxErrors = False


def edit_symbol_tool(state: FileState, cwd: Path) -> Tool:
    """EditSymbol. `state` is the session's memory of files; relative paths start at `cwd`."""

    def title(input: EditSymbolInput) -> str:
        action = input.action.replace("_", " ").capitalize()
        return f"{action} {input.symbol} in {shown_path(cwd, cwd / input.file_path)}"

    def plan(input: EditSymbolInput) -> Plan:
        return lambda path, display_path: plan_symbol_edit(path, display_path, input, state)

    async def preview(input: EditSymbolInput) -> Preview:
        return await preview_change(plan(input), input.file_path, cwd, title(input))

    @tool(
        name="EditSymbol",
        rarely_used=True,
        has_effects=False,
        output=FilesOutput,
        description=DESCRIPTION,
        access=ToolAccess("edit", "file_path"),
        category="code",
        best_for="a function or class by its name",
        limits=ToolLimits(file_bytes=PARSED_BYTES),
        examples=[
            {
                "file_path": "app.py",
                "symbol": "Server.stop",
                "action": "replace",
                "new_source": "def stop(self):\n    self.running = False\n",
            },
            {"file_path": "src/list.ts", "symbol": "isEmpty", "action": "delete"},
        ],
        title=title,
        preview=preview,
    )
    async def edit_symbol(input: EditSymbolInput) -> ToolResult:
        return await make_change(plan(input), input.file_path, cwd, state)

    return edit_symbol


_WORDS: Mapping[Action, str] = {
    "replace": "Replaced",
    "insert_before": "Inserted before",
    "insert_after": "Inserted after",
    "delete": "Deleted",
}

DEFAULT_UNIT = "    "
_STRINGS = lazy_pattern(r"string|text_block|heredoc")


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
    """Return whether all lines are where they belong but the first: copied from a file from its first letter on."""
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


_COMMENT = lazy_pattern(r"\s*(?:#(?!\[)|//|/\*)")
_DECORATOR = lazy_pattern(r"^\s*(?:@\w|#\[)", re.MULTILINE)
_EXPORT = lazy_pattern(r"(?:^|\n)\s*export\b")
_CLOSERS = ("}", ")", "]", "end")


class SplicedText(Struct, frozen=True):
    """The text after an edit, and what Claude should know of it."""

    text: str
    notes: tuple[str, ...] = ()


class _InsertPosition(Struct, frozen=True):
    """A definition's lines `first` to `last` (excluded) among `lines`, and what the new ones are like."""

    lines: list[str]
    first: int
    last: int
    indent: str
    end: str
    blank: int
    """The number of blank lines that the language's usual style has between two definitions here."""


def splice(
    text: str, source: bytes, found: Definition, action: Action, new: str, grammar: Grammar, display_path: str
) -> SplicedText:
    """`text` (in UTF-8: `source`) with `action` done to the definition `found`."""
    keeps_comment = action == "replace" and not _COMMENT.match(new)
    start = found.below_comment if keeps_comment else found.start
    line_start = source.rfind(b"\n", 0, start) + 1
    line_end = source.find(b"\n", found.stop)
    before, after = source[line_start:start], source[found.stop : line_end if line_end >= 0 else len(source)]
    if before.strip() or after.strip():
        return SplicedText(_within_line(source, start, found, action, new, display_path))
    end = main_line_end(text)
    lines = split_lines(text)
    first, last = source.count(b"\n", 0, start), source.count(b"\n", 0, found.stop) + 1
    indent = before.decode()
    position = _InsertPosition(lines, first, last, indent, end, 2 if grammar is PYTHON and not indent else 1)
    notes: tuple[str, ...] = ()
    if action == "delete":
        result = _without(position)
    else:
        unit = indentation_unit(text, "\t" if "\t" in indent else "    ")
        added = [line + end for line in indented(new, indent, unit, grammar)]
        if action == "replace":
            notes = _lost(source[start : found.stop].decode("utf-8", "replace"), new)
            result = lines[:first] + added + lines[last:]
        else:
            result = _before(position, added) if action == "insert_before" else _after(position, added)
    whole = "".join(line if line.endswith("\n") else line + end for line in result)
    if whole.endswith("\n") and not text.endswith("\n"):
        whole = whole.removesuffix("\n").removesuffix("\r")
    return SplicedText(whole, notes)


def _within_line(source: bytes, start: int, found: Definition, action: Action, new: str, display_path: str) -> str:
    """The same where other code is on the definition's lines: only its own characters go."""
    if action.startswith("insert"):
        raise ToolError(
            f"{found.name} shares line {found.line} of {display_path} with other code. Insert with Edit.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    put = new.strip().encode("utf-8", "surrogatepass") if action == "replace" else b""
    after = source[found.stop :] if put else source[found.stop :].lstrip(b" \t")
    return (source[:start] + put + after).decode("utf-8", "surrogatepass")


def _lost(old: str, new: str) -> tuple[str, ...]:
    """List what was part of a definition and is not in what replaces it: it may have been forgotten."""
    notes = []
    if (decorator := _DECORATOR.search(old)) and not _DECORATOR.search(new):
        line = old[decorator.start() :].lstrip().split("\n")[0]
        notes.append(f"{line.strip()} is gone: new_source does not have it.")
    if _EXPORT.match(old) and not _EXPORT.match(new):
        notes.append("It was exported and is not any more: new_source does not begin with export.")
    return tuple(notes)


def _gap(lines: list[str], at: int, step: int) -> tuple[int, str]:
    """Count the blank lines from line `at` on (`step` 1 or -1); with the line after them, "" at the text's end."""
    count = 0
    while 0 <= at < len(lines) and not lines[at].strip():
        count += 1
        at += step
    return count, lines[at] if 0 <= at < len(lines) else ""


def _neighbour(line: str, indent: str) -> bool:
    """Return whether a line is of the same block: not its head, not its end."""
    own = line[: len(line) - len(line.lstrip(" \t"))]
    return bool(line.strip()) and len(own) >= len(indent) and not line.strip().startswith(_CLOSERS)


def _blank_lines(position: _InsertPosition, added: list[str]) -> int:
    """Blank lines to go between the definition and the new one: none where one-liners stand close together."""
    if position.last - position.first > 1 or len(added) > 1:
        return position.blank
    sides = _gap(position.lines, position.first - 1, -1), _gap(position.lines, position.last, 1)
    return 0 if any(not gap and _neighbour(line, position.indent) for gap, line in sides) else position.blank


def _after(position: _InsertPosition, added: list[str]) -> list[str]:
    gap, line = _gap(position.lines, position.last, 1)
    blank = _blank_lines(position, added)
    # what follows closely gets its distance too
    missing = max(blank - gap, 0) if _neighbour(line, position.indent) else 0
    own = [*position.lines[: position.last]]
    if not own[-1].endswith("\n"):
        own[-1] += position.end
    return [*own, *[position.end] * blank, *added, *[position.end] * missing, *position.lines[position.last :]]


def _before(position: _InsertPosition, added: list[str]) -> list[str]:
    gap, line = _gap(position.lines, position.first - 1, -1)
    blank = _blank_lines(position, added)
    neighbour = _neighbour(line, position.indent) and not _opens(line, position.indent)
    missing = max(blank - gap, 0) if neighbour else 0
    return [
        *position.lines[: position.first],
        *[position.end] * missing,
        *added,
        *[position.end] * blank,
        *position.lines[position.first :],
    ]


def _opens(line: str, indent: str) -> bool:
    """Return whether a line is the head of a block that begins there, though it is not less indented."""
    return not indent and line.rstrip().endswith(("{", "("))


def _without(position: _InsertPosition) -> list[str]:
    above, head = _gap(position.lines, position.first - 1, -1)
    below, foot = _gap(position.lines, position.last, 1)
    if not _neighbour(foot, position.indent):
        keep = below  # the last one of its block: what is above it ends as it did
    elif not _neighbour(head, position.indent) or _opens(head, position.indent):
        keep = above
    else:
        keep = max(above, below)
    blank = [line for line in position.lines[position.last : position.last + below] if keep] or [position.end]
    return [
        *position.lines[: position.first - above],
        *(blank * keep)[:keep],
        *position.lines[position.last + below :],
    ]


def plan_symbol_edit(path: Path, display_path: str, input: EditSymbolInput, state: FileState) -> Change:
    """The file with one definition changed. It must have been read, and be as it was then."""
    real = real_path(path)
    grammar = grammar_of(real)
    if grammar is None or grammar is BASH:
        raise ToolError(
            f"{display_path} is in no language that EditSymbol knows ({', '.join(LANGUAGES)}). Use Edit.",
            code=ErrorCode.FILE_PATH_INVALID,
        )
    if not is_installed(grammar):
        message = f"{needs_extra(f'EditSymbol in {grammar.name}', 'code')} Until then use Edit."
        raise ToolError(message, code=ErrorCode.EXECUTION_ERROR)
    new_source, action = _checked(input)
    old = on_disk(real, display_path, state)
    if old is None:
        raise not_found(path, display_path)
    if old.stale:
        # by its name alone, something that was never seen would be overwritten
        raise stale_error(display_path)
    source = old.text.encode("utf-8", "surrogatepass")
    if len(source) > PARSED_BYTES:
        raise ToolError(f"{display_path} is too large to be parsed. Use Edit.", code=ErrorCode.FILE_ACCESS_ERROR)
    definition = _chosen(source, grammar, input, display_path)
    spliced = splice(old.text, source, definition, action, new_source, grammar, display_path)
    check_size(len(spliced.text), PARSED_BYTES, display_path)
    verb = ("Edit", "Edited")
    change = update(
        real, display_path, old, spliced.text, verb, allow_syntax_errors=input.allow_syntax_errors, whole=old.known
    )
    if change.after == change.before:
        return change
    return replace(
        change,
        title=f"{action.replace('_', ' ').capitalize()} {definition.name} in {display_path}",
        result=_result(definition, action, spliced, source) + "\n" + change.result,
    )


def _checked(input: EditSymbolInput) -> tuple[str, Action]:
    new_source, action = input.new_source, input.action
    if action == "delete" and new_source.strip():
        raise ToolError("delete takes no new_source. Use replace.", code=ErrorCode.INVALID_PARAMETERS)
    if action != "delete" and not new_source.strip():
        raise ToolError(f"{action} needs new_source, which is empty.", code=ErrorCode.INVALID_PARAMETERS)
    return new_source, action


def _result(definition: Definition, action: Action, spliced: SplicedText, source: bytes) -> str:
    first = source.count(b"\n", 0, definition.start) + 1
    last = source.count(b"\n", 0, definition.stop) + 1
    lines = f"line {first}" if first == last else f"lines {first}-{last}"
    notes = "".join(f"\n[{note}]" for note in spliced.notes)
    return f"{_WORDS[action]} the {definition.kind} {definition.name} ({lines} before the edit).{notes}"


def _chosen(source: bytes, grammar: Grammar, input: EditSymbolInput, display_path: str) -> Definition:
    """The definition that `symbol` and `occurrence` name."""
    symbol = input.symbol.strip()
    plain = symbol if symbol.endswith("operator()") else symbol.removesuffix("()")
    # in `A#m` it stands between names, in `A.#m` it is of a private name of JavaScript
    names = tuple(part for part in re.split(r"::|\.|(?<=\w)#", plain) if part)
    named = definitions(grammar, source, names[-1]) if names else []
    fitting = [each for each in named if each.names[-len(names) :] == names]
    # what is called exactly so is meant, if there is one: nothing else could name it
    exact = [each for each in fitting if each.names == names] or fitting
    found = [each for each in exact if not each.declared] or exact
    occurrence = input.occurrence
    if occurrence is not None and found:
        # numbered as they are listed, the ones without a body too
        at = occurrence - 1
        if at >= len(exact):
            raise _several(symbol, exact, display_path, f"there is no occurrence {occurrence}")
        return exact[at]
    if len(found) == 1:
        return found[0]
    if found:
        raise _several(symbol, exact, display_path, f"there are {len(found)}")
    raise _no_such(symbol, names, definitions(grammar, source), display_path)


def _several(symbol: str, found: Sequence[Definition], display_path: str, why: str) -> ToolError:
    listed = "\n".join(
        f"{number}. line {each.line}: {each.kind} {each.name}{' (declaration)' if each.declared else ''}"
        for number, each in enumerate(found[:PLACES_NAMED], 1)
    )
    more = f"\nand {len(found) - PLACES_NAMED} more" if len(found) > PLACES_NAMED else ""
    return ToolError(
        f"{symbol} in {display_path}: {why}. Say which one by its full name, or with occurrence:\n{listed}{more}",
        code=ErrorCode.INVALID_PARAMETERS,
        details={"matches": len(found), "lines": [each.line for each in found[:PLACES_NAMED]]},
    )


def _no_such(symbol: str, names: tuple[str, ...], there: list[Definition], display_path: str) -> ToolError:
    listed = list(dict.fromkeys(each.name for each in there))
    near = get_close_matches(".".join(names), listed, n=5, cutoff=0.6)
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    elif listed:
        hint = f"There are: {', '.join(listed[:PLACES_NAMED])}{', …' if len(listed) > PLACES_NAMED else ''}."
    else:
        hint = "Nothing is defined in it that can be found by name; use Edit."
    return ToolError(f"{symbol} is not defined in {display_path}. {hint}", code=ErrorCode.INVALID_PARAMETERS)
