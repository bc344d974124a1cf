"""The names of tools: what the built-in ones declare under theirs, and the other names that models remember.

Tools are above, so what they declare is written in `built_in_tools.json`, for the rooms below them and those that have a
name alone; `tests/house/test_written_definitions.py` writes it, and fails if a tool declares something else by now.

Other agents use other names for such tools and for the fields of their inputs. A name that a tool has itself is never
taken for another, and a field that is given is never overridden. Names are applied before a call is checked and judged,
so that permissions, hooks and transcripts know the tool and the fields that are meant.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from cellwright.agent.tool import AccessKind, Category, ToolAccess
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from cellwright.agent.tool import Tool


WRITTEN_ACCESS = Path(__file__).with_name("built_in_tools.json")

FIELDS: Mapping[str, tuple[str, ...]] = {
    # files and folders
    "path": ("file_path", "notebook_path"),
    "file": ("file_path", "notebook_path", "path"),
    "file_path": ("path", "notebook_path"),
    "filename": ("file_path", "notebook_path", "path"),
    "target_file": ("file_path", "path"),
    "absolute_path": ("file_path", "notebook_path", "path"),
    "notebook": ("notebook_path",),
    "directory": ("path", "working_directory"),
    "dir": ("path", "working_directory"),
    "dir_path": ("path", "working_directory"),
    "directory_path": ("path", "working_directory"),
    "folder": ("path", "working_directory"),
    "search_path": ("path",),
    "workdir": ("working_directory", "path"),
    "working_dir": ("working_directory", "path"),
    "working_directory": ("path",),
    "cwd": ("working_directory", "path"),
    # text and edits
    "old_str": ("old_string",),
    "old_text": ("old_string",),
    "new_str": ("new_string",),
    "new_text": ("new_string",),
    "contents": ("content",),
    "file_text": ("content",),
    "text": ("content",),
    "source": ("new_source", "code"),
    "new_content": ("new_source",),
    "python_code": ("code",),
    # searches
    "regex": ("pattern",),
    "regexp": ("pattern",),
    "search_pattern": ("pattern",),
    "glob_pattern": ("pattern",),
    "search_term": ("query", "pattern"),
    "search_query": ("query", "pattern"),
    "query": ("pattern",),
    "ignore_case": ("-i",),
    "case_insensitive": ("-i",),
    "case_sensitive": ("-i",),
    "i": ("-i",),
    "context_after": ("-A",),
    "after_context": ("-A",),
    "lines_after": ("-A",),
    "A": ("-A",),
    "context_before": ("-B",),
    "before_context": ("-B",),
    "lines_before": ("-B",),
    "B": ("-B",),
    "context_around": ("-C",),
    "context_lines": ("-C",),
    "C": ("-C",),
    "show_line_numbers": ("-n",),
    "line_numbers": ("-n",),
    "n": ("-n",),
    "only_matching": ("-o",),
    "max_results": ("head_limit", "limit"),
    "max_matches": ("head_limit", "limit"),
    "max_count": ("head_limit", "limit"),
    "limit": ("head_limit",),
    "head_limit": ("limit",),
    "file_patterns": ("glob", "pattern"),
    "file_pattern": ("glob", "pattern"),
    "include_patterns": ("glob", "pattern"),
    "include_pattern": ("glob", "pattern"),
    "include": ("glob", "pattern"),
    "exclude_patterns": ("ignore", "exclude"),
    "exclude_pattern": ("ignore", "exclude"),
    "ignore_patterns": ("ignore", "exclude"),
    "exclude": ("ignore",),
    "ignore": ("exclude",),
    # parts of files
    "start_line": ("offset",),
    "line_start": ("offset",),
    "end_line": ("limit",),
    "line_end": ("limit",),
    "max_lines": ("limit",),
    # commands
    "cmd": ("command",),
    "shell_command": ("command",),
    "background": ("run_in_background",),
    "is_background": ("run_in_background",),
    "timeout_ms": ("timeout",),
    "timeout_seconds": ("timeout",),
    "env": ("environment_variables",),
    "environment": ("environment_variables",),
    # agents, skills and lists
    "agent_type": ("subagent_type",),
    "agent": ("subagent_type",),
    "task": ("prompt",),
    "skill_name": ("skill",),
    "todo_list": ("todos",),
    "items": ("todos",),
}
"""The fields that a name may mean where a tool has none of that name, the likeliest first.

Written with capitals (`filePath`) or dashes, a field's own name needs no row.
"""


_HUMP = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")


class WrittenAccess(Struct, frozen=True, omit_defaults=True):
    """The declarations of a tool that a decision rests on."""

    access: ToolAccess
    read_only: bool = False
    category: Category = "other"


@functools.cache
def written_tools() -> Mapping[str, WrittenAccess]:
    """The declarations of every built-in tool."""
    return msgspec.json.decode(WRITTEN_ACCESS.read_bytes(), type=dict[str, WrittenAccess])


def access_of(name: str) -> ToolAccess:
    """Return the access of a built-in tool, by its name; the unknown one of any other.

    >>> access_of("Edit").kind, access_of("NoSuchTool").kind
    ('edit', 'unknown')
    """
    written = written_tools().get(name)
    return ToolAccess() if written is None else written.access


def changes_cells(name: str) -> bool:
    """Return whether it is the tool that edits the cells of a notebook."""
    return access_of(name) == ToolAccess("edit", "notebook_path")


def name_with(kind: AccessKind, field: str) -> str:
    """Return the name of the first built-in tool with this access. Raises StopIteration if there is none.

    >>> name_with("read", "file_path"), name_with("edit", "notebook_path")
    ('Read', 'NotebookEdit')
    """
    return next(name for name, tool in written_tools().items() if tool.access == ToolAccess(kind, field))


def _pattern(value: Any) -> Any:
    """One glob for a list of them."""
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        return value
    return value[0] if len(value) == 1 else f"{{{','.join(value)}}}"


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _milliseconds(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value * 1_000) if is_number and 0 < value < 1e9 else value


_VALUES: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("case_sensitive", "-i"): lambda value: not value if isinstance(value, bool) else value,
    ("timeout_seconds", "timeout"): _milliseconds,
    **{
        (name, field): _pattern
        for name in FIELDS
        if name.startswith(("file_pattern", "include"))
        for field in FIELDS[name]
    },
    **{(name, field): _list for name, fields in FIELDS.items() for field in fields if field in ("ignore", "exclude")},
}
"""The changes of values that are said otherwise under another name."""


def with_own_fields(values: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """`values` under the names of `fields`, where theirs are other names for one; the rest is left as it is."""
    if all(name in fields for name in values):
        return dict(values)
    spelled = {_spelling(field): field for field in fields}
    found: dict[str, Any] = {name: value for name, value in values.items() if name in fields}
    for name, value in values.items():
        if name in fields:
            continue
        own = spelled.get(_spelling(name))
        if not own:
            meant = FIELDS.get(name) or FIELDS.get(_snake(name), ())
            own = next((field for field in meant if field in fields), None)
        if own is None or (own in found and own not in values):  # two other names for one field: which is meant?
            found[name] = value
        elif own not in values:
            changed = _VALUES.get((_snake(name), own))
            found[own] = value if changed is None else changed(value)
    return _as_count(values, found, fields)


def _as_count(values: Mapping[str, Any], found: dict[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The number of lines where the last line was said instead."""
    said_last = next((name for name in values if _snake(name) in ("end_line", "line_end") and name not in fields), None)
    if said_last is None or "limit" in values or "limit" not in found or values[said_last] is not found["limit"]:
        return found
    first, last = found.get("offset", 1), found["limit"]
    if all(isinstance(each, int) and not isinstance(each, bool) for each in (first, last)) and 1 <= first <= last:
        found["limit"] = last - first + 1
    return found


def _snake(name: str) -> str:
    return _HUMP.sub("_", name).replace("-", "_").lower() if len(name) > 1 else name


def _spelling(name: str) -> str:
    """The same for all spellings of a name: `filePath`, `file-path`, `file_path`."""
    return name if name.startswith("-") else name.replace("_", "").replace("-", "").lower()  # not -A for -a


def meant_tool(name: str, given: Mapping[str, Any], tools: Mapping[str, Tool]) -> str:
    """The name of the tool that a call of `name` with the input `given` means; `name` itself if none is meant.

    Of the tools that have the name among their `other_names` the likeliest whose fields fit the call is taken; spellings of
    their own names (`todo_write`, `web_fetch`) need none. The name of a server's tool (`mcp__…`) means that tool alone.
    """
    if name in tools or name.startswith("mcp__"):
        return name
    spelling = _spelling(name)
    own = [tool for tool in tools if not tool.startswith("mcp__")]
    same = [tool for tool in own if _spelling(tool) == spelling]
    if len(same) > 1:
        return name
    meant = same
    if not same:
        # those first that the name means above all
        snake = _snake(name)
        known = [tools[tool] for tool in own if snake in tools[tool].other_names]
        meant = [tool.name for tool in sorted(known, key=lambda tool: tuple(tool.other_names).index(snake))]
    for tool in meant:
        schema = tools[tool].input_schema
        fields = schema.get("properties", {})
        named = with_own_fields(given, fields)
        if set(named) <= set(fields) and set(schema.get("required", ())) <= set(named):
            return tool
    return meant[0] if meant else name
