"""EditSymbol: a function, method, class or type replaced, deleted or given a neighbour, by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Tool, ToolError, ToolLimits
from cellwright.errors import ErrorCode
from cellwright.tools.code.symbol_outline import LANGUAGES, Definition, definitions
from cellwright.tools.code.syntax import ALLOW, ALLOW_FIELD
from cellwright.tools.files.changes import Change, Input, writing_call, writing_preview
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.replace import on_disk, stale_error, update
from cellwright.tools.languages import BASH, Grammar, grammar_of
from cellwright.tools.paths import not_found, real_path, shown_path
from cellwright.tools.schema import FILE_PATH, object_schema
from cellwright.tools.symbol_text import Spliced, splice

PARSED_BYTES = 2 * 2**20
"""A syntax tree takes many times the memory of its text."""

PLACES_NAMED = 20

DESCRIPTION = f"""\
Replace, delete, or insert beside a function, method, class or type, found by its name ({", ".join(LANGUAGES)}).
- Read the file first. symbol is `name` or `Class.method`. Where several fit, the error lists them: set occurrence.
- Decorators, annotations and `export` are part of it: repeat them in new_source. A comment right above it is deleted with \
it, but stays when it is replaced, unless new_source begins with a comment.
- new_source is moved to the place's indentation; blank lines between definitions are put in."""

ACTIONS = ("replace", "insert_before", "insert_after", "delete")
_WORDS = {
    "replace": "Replaced",
    "insert_before": "Inserted before",
    "insert_after": "Inserted after",
    "delete": "Deleted",
}


def edit_symbol_tool(state: FileState, cwd: Path) -> Tool:
    """EditSymbol. `state` is the session's memory of files; relative paths start at `cwd`."""

    def plan(path: Path, shown: str, tool_input: Input) -> Change:
        return plan_symbol_edit(path, shown, tool_input, state)

    def title(tool_input: Mapping[str, Any]) -> str:
        shown = shown_path(cwd, cwd / str(tool_input["file_path"]))
        action = str(tool_input["action"]).replace("_", " ").capitalize()
        return f"{action} {tool_input['symbol']} in {shown}"

    return Tool(
        name="EditSymbol",
        description=DESCRIPTION,
        input_schema=object_schema(
            {
                "file_path": FILE_PATH,
                "symbol": {"type": "string", "minLength": 1, "description": "Its name: `name` or `Class.method`."},
                "action": {"type": "string", "enum": list(ACTIONS), "description": "What to do."},
                "new_source": {"type": "string", "description": "The new definition; not for delete."},
                "occurrence": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Which one of several with this name, as the error numbers them.",
                },
                ALLOW: ALLOW_FIELD,
            },
            required=["file_path", "symbol", "action"],
        ),
        call=writing_call(plan, "file_path", state, cwd),
        rule_key="file_path",
        category="code",
        limits=ToolLimits(file_bytes=PARSED_BYTES),
        input_examples=(
            {
                "file_path": "app.py",
                "symbol": "Server.stop",
                "action": "replace",
                "new_source": "def stop(self):\n    self.running = False\n",
            },
            {"file_path": "src/list.ts", "symbol": "isEmpty", "action": "delete"},
        ),
        title=title,
        preview=writing_preview(plan, "file_path", title, cwd),
    )


def plan_symbol_edit(path: Path, shown: str, tool_input: Input, state: FileState) -> Change:
    """The file with one definition changed. It must have been read, and be as it was then."""
    real = real_path(path)
    grammar = grammar_of(real)
    if grammar is None or grammar is BASH:
        raise ToolError(
            f"{shown} is in no language that EditSymbol knows ({', '.join(LANGUAGES)}). Use Edit.",
            code=ErrorCode.FILE_PATH_INVALID,
        )
    new_source, action = _checked(tool_input)
    old = on_disk(real, shown, state)
    if old is None:
        raise not_found(path, shown)
    if old.stale:
        # by its name alone, something that was never seen would be overwritten
        raise stale_error(shown)
    source = old.text.encode("utf-8", "surrogatepass")
    if len(source) > PARSED_BYTES:
        raise ToolError(f"{shown} is too large to be parsed. Use Edit.", code=ErrorCode.FILE_ACCESS_ERROR)
    definition = _chosen(source, grammar, tool_input, shown)
    spliced = splice(old.text, source, definition, action, new_source, grammar, shown)
    change = update(real, shown, old, spliced.text, ("Edit", "Edited"), tool_input, whole=old.known)
    if change.after == change.before:
        return change
    return replace(
        change,
        title=f"{action.replace('_', ' ').capitalize()} {definition.name} in {shown}",
        result=_result(definition, action, spliced, source) + "\n" + change.result,
    )


def _checked(tool_input: Input) -> tuple[str, str]:
    new_source, action = str(tool_input.get("new_source", "")), str(tool_input["action"])
    if action == "delete" and new_source.strip():
        raise ToolError("delete takes no new_source. Use replace.", code=ErrorCode.INVALID_PARAMETERS)
    if action != "delete" and not new_source.strip():
        raise ToolError(f"{action} needs new_source, which is empty.", code=ErrorCode.INVALID_PARAMETERS)
    return new_source, action


def _result(definition: Definition, action: str, spliced: Spliced, source: bytes) -> str:
    first = source.count(b"\n", 0, definition.start) + 1
    last = source.count(b"\n", 0, definition.stop) + 1
    lines = f"line {first}" if first == last else f"lines {first}-{last}"
    notes = "".join(f"\n[{note}]" for note in spliced.notes)
    return f"{_WORDS[action]} the {definition.kind} {definition.name} ({lines} before the edit).{notes}"


def _chosen(source: bytes, grammar: Grammar, tool_input: Input, shown: str) -> Definition:
    """The definition that `symbol` and `occurrence` name."""
    symbol = tool_input["symbol"].strip()
    plain = symbol if symbol.endswith("operator()") else symbol.removesuffix("()")
    # in `A#m` it stands between names, in `A.#m` it is of a private name of JavaScript
    names = tuple(part for part in re.split(r"::|\.|(?<=\w)#", plain) if part)
    named = definitions(grammar, source, names[-1]) if names else []
    fitting = [each for each in named if each.names[-len(names) :] == names]
    # what is called exactly so is meant, if there is one: nothing else could name it
    exact = [each for each in fitting if each.names == names] or fitting
    found = [each for each in exact if not each.declared] or exact
    occurrence = tool_input.get("occurrence")
    if occurrence is not None and found:
        # numbered as they are listed, the ones without a body too
        at = int(occurrence) - 1
        if at >= len(exact):
            raise _several(symbol, exact, shown, f"there is no occurrence {occurrence}")
        return exact[at]
    if len(found) == 1:
        return found[0]
    if found:
        raise _several(symbol, exact, shown, f"there are {len(found)}")
    raise _no_such(symbol, names, definitions(grammar, source), shown)


def _several(symbol: str, found: Sequence[Definition], shown: str, why: str) -> ToolError:
    listed = "\n".join(
        f"{number}. line {each.line}: {each.kind} {each.name}{' (declaration)' if each.declared else ''}"
        for number, each in enumerate(found[:PLACES_NAMED], 1)
    )
    more = f"\nand {len(found) - PLACES_NAMED} more" if len(found) > PLACES_NAMED else ""
    return ToolError(
        f"{symbol} in {shown}: {why}. Say which one by its full name, or with occurrence:\n{listed}{more}",
        code=ErrorCode.INVALID_PARAMETERS,
        details={"matches": len(found), "lines": [each.line for each in found[:PLACES_NAMED]]},
    )


def _no_such(symbol: str, names: tuple[str, ...], there: list[Definition], shown: str) -> ToolError:
    from rapidfuzz import process  # native code, only needed to help

    listed = list(dict.fromkeys(each.name for each in there))
    near = [name for name, _, _ in process.extract(".".join(names), listed, limit=5, score_cutoff=60)]
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    elif listed:
        hint = f"There are: {', '.join(listed[:PLACES_NAMED])}{', …' if len(listed) > PLACES_NAMED else ''}."
    else:
        hint = "Nothing is defined in it that can be found by name; use Edit."
    return ToolError(f"{symbol} is not defined in {shown}. {hint}", code=ErrorCode.INVALID_PARAMETERS)
