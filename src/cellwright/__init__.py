"""Cellwright: Claude inside the Jupyter kernel.

In a notebook: `%load_ext cellwright`, then a cell that starts with `%%claude`. From Python:

    import cellwright
    result = cellwright.ask("Which column of data/sales.csv has missing values?")
    print(result.text)

The errors a user meets (`cellwright.errors` draws the tree): `CellwrightError`, and `RunError` for a run that did not end by
itself. A tool raises `ToolError` for what Claude should read.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cellwright.version import VERSION as __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_HOME = {
    "Agent": "cellwright.python_api.agent",
    "Allow": "cellwright.agent.calls.approval",
    "Catalog": "cellwright.sessions.catalog.catalog",
    "CellwrightError": "cellwright.errors",
    "ContextUsage": "cellwright.python_api.agent",
    "Decision": "cellwright.agent.calls.approval",
    "Deny": "cellwright.agent.calls.approval",
    "ErrorCode": "cellwright.errors",
    "HookMatcher": "cellwright.agent.hooks.callbacks",
    "MapResult": "cellwright.python_api.map_result",
    "MapRow": "cellwright.python_api.map_result",
    "PermissionPolicy": "cellwright.permissions.policy",
    "Result": "cellwright.conversation.runs.run_options",
    "Rewound": "cellwright.python_api.agent",
    "RunError": "cellwright.conversation.runs.run_options",
    "Session": "cellwright.sessions.session",
    "Tool": "cellwright.agent.tool",
    "ToolAccess": "cellwright.agent.tool",
    "ToolContext": "cellwright.agent.tool",
    "ToolError": "cellwright.errors",
    "ToolInput": "cellwright.agent.calls.tool_input",
    "ToolLimits": "cellwright.agent.tool",
    "ToolOutput": "cellwright.agent.calls.tool_results",
    "ToolPermissionContext": "cellwright.agent.calls.permission_callback",
    "ToolResult": "cellwright.agent.tool",
    "ToolUse": "cellwright.agent.calls.approval",
    "ask": "cellwright.python_api.ask",
    "builtin_tools": "cellwright.conversation.tools.toolset",
    "connect": "cellwright.model.anthropic",
    "interrupt": "cellwright.python_api.ask",
    "map": "cellwright.python_api.prompt_map",
    "stability": "cellwright.python_api.stability",
    "stream": "cellwright.python_api.ask",
    "tool": "cellwright.agent.tool",
}
"""The module of each public name. Names are imported at first use, so `import cellwright` costs next to nothing."""

__all__ = [
    "Agent",
    "Allow",
    "Catalog",
    "CellwrightError",
    "ContextUsage",
    "Decision",
    "Deny",
    "ErrorCode",
    "HookMatcher",
    "MapResult",
    "MapRow",
    "PermissionPolicy",
    "Result",
    "Rewound",
    "RunError",
    "Session",
    "Tool",
    "ToolAccess",
    "ToolContext",
    "ToolError",
    "ToolInput",
    "ToolLimits",
    "ToolOutput",
    "ToolPermissionContext",
    "ToolResult",
    "ToolUse",
    "__version__",
    "ask",
    "builtin_tools",
    "connect",
    "interrupt",
    "stability",
    "stream",
    "tool",
]

if TYPE_CHECKING:
    from cellwright.agent.calls.approval import Allow, Decision, Deny, ToolUse
    from cellwright.agent.calls.permission_callback import ToolPermissionContext
    from cellwright.agent.calls.tool_input import ToolInput
    from cellwright.agent.calls.tool_results import ToolOutput
    from cellwright.agent.hooks.callbacks import HookMatcher
    from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
    from cellwright.conversation.runs.run_options import Result, RunError
    from cellwright.conversation.tools.toolset import builtin_tools
    from cellwright.errors import CellwrightError, ErrorCode, ToolError
    from cellwright.model.anthropic import connect
    from cellwright.permissions.policy import PermissionPolicy
    from cellwright.python_api.agent import Agent, ContextUsage, Rewound
    from cellwright.python_api.ask import ask, interrupt, stream
    from cellwright.python_api.map_result import MapResult, MapRow
    from cellwright.python_api.prompt_map import map as map
    from cellwright.python_api.stability import stability
    from cellwright.sessions.catalog.catalog import Catalog
    from cellwright.sessions.session import Session


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'cellwright' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "map"])  # `from cellwright import *` leaves Python's own `map` alone


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Tell JupyterLab's developer tools the place of the prebuilt extension."""
    return [{"src": "labextension", "dest": "cellwright"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Name the server extension for Jupyter Server to load where it is enabled, as it is on install."""
    from cellwright.server.server_extension import CellwrightApp  # `import cellwright` stays free of Jupyter Server

    return [{"module": "cellwright.server.server_extension", "app": CellwrightApp}]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext cellwright`."""
    from cellwright.kernel import library_imports  # `import cellwright` stays free of IPython

    library_imports.install()  # before anything else is imported
    from cellwright.kernel.extension import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext cellwright`."""
    from cellwright.kernel import library_imports
    from cellwright.kernel.extension import unload

    unload(shell)
    library_imports.remove()
