"""Tools that others bring: packages by the entry point `cellwright.tools`, trusted folders by `.claude/tools/*.py`.

An entry point of the group `cellwright.tools` gives a `Tool`, a list of them, or a function without parameters that
returns either. A file's tools are the `Tool` values at its top level (`@tool` makes them); a tool of claude-agent-sdk is
one, too. A tool whose name is taken is left out: no package and no folder can put itself in the place of another tool.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from cellwright.agent.calls.permission_gate import LEAVING
from cellwright.agent.tool import Tool
from cellwright.config.sdk_tools import as_tool, is_sdk_tool

GROUP = "cellwright.tools"


class LoadedPlugins(Struct):
    """The tools that were brought, and what the user should know of those that were not."""

    tools: dict[str, Tool] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)


def brought_tools(files: Sequence[tuple[Path, bytes]], taken: Iterable[str]) -> LoadedPlugins:
    """The tools of installed packages and of `files` (each with the content that the user trusts).

    `taken` are names that are not given away. Never raises: what is broken is left out, with a notice.
    """
    brought, names = LoadedPlugins(), set(taken)
    sources = list(_of_packages())
    sources += [(str(file), functools.partial(_run, file, content)) for file, content in files]
    for where, load in sources:
        try:
            found = list(_tools_in(load()))
        except LEAVING as error:  # it is others' code
            brought.notices.append(f"No tools from {where}: {_what(error)}")
            continue
        for tool in found:
            if tool.name in names:
                brought.notices.append(
                    f"{where} brings a tool named {tool.name}, which there is already; it is not used."
                )
                continue
            names.add(tool.name)
            brought.tools[tool.name] = tool
    return brought


def _of_packages() -> Iterator[tuple[str, Callable[[], object]]]:
    """List what packages bring: where from, and what loads it."""
    if not any(_may_bring(folder or os.curdir) for folder in sys.path):
        return
    import importlib.metadata  # 15 ms, and much more for all packages: for who has such a package

    for entry in importlib.metadata.entry_points(group=GROUP):
        yield f"the package {entry.dist.name if entry.dist else entry.value} ({entry.name})", entry.load


def _may_bring(folder: str) -> bool:
    """Return whether a package installed in `folder` names the group; what is no folder (a zip file) may."""
    # without Path: each start looks at all packages, and its methods raise for a folder of somebody else's, over which
    # Python itself passes
    if not os.path.isdir(folder):  # noqa: PTH112
        return os.path.isfile(folder)  # noqa: PTH113
    named = f"[{GROUP}]".encode()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208
            if name.endswith((".dist-info", ".egg-info")):
                with contextlib.suppress(OSError), open(f"{folder}/{name}/entry_points.txt", "rb") as file:  # noqa: PTH123
                    if named in file.read():
                        return True
    return False


def _tools_in(value: object) -> Iterator[Tool]:
    if _is_tool(value):
        yield as_tool(value)
    elif isinstance(value, types.ModuleType):
        yield from (as_tool(item) for item in vars(value).values() if _is_tool(item))
    elif isinstance(value, list | tuple):
        for item in value:
            if not _is_tool(item):
                raise TypeError(f"{item!r} is not a Tool")
            yield as_tool(item)
    elif callable(value):
        made = value()
        if not _is_tool(made) and not isinstance(made, list | tuple):
            raise TypeError(f"the function returned {made!r}, which is not a Tool or a list of Tools")
        yield from _tools_in(made)
    else:
        raise TypeError(f"{value!r} is not a Tool, a list of Tools, or a function that makes them")


def _is_tool(value: object) -> bool:
    return isinstance(value, Tool) or is_sdk_tool(value)


def _run(file: Path, content: bytes) -> types.ModuleType:
    """The module that `content`, which is what the user trusts, makes; the file is not read again."""
    name = f"cellwright_project_tools.{file.stem}"
    module = types.ModuleType(name)
    module.__file__ = str(file)
    code = compile(content, str(file), "exec")
    before = sys.modules.get(name)
    sys.modules[name] = module  # type hints and dataclasses look their module up
    try:
        exec(code, vars(module))
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
    return module


def _what(error: BaseException) -> str:
    """The error, and the line of the brought file it comes from."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    line = f"line {frames[-1].lineno}: " if frames else ""
    return f"{line}{type(error).__name__}: {error}"
