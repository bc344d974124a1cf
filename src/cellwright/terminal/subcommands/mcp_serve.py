"""`cellwright mcp serve`: our file, notebook and kernel tools for other agents, over stdio."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from cellwright.config.settings.settings_files import start_folder
from cellwright.conversation.runs.run_options import RunOptions, existing_folder
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.permissions.modes import LISTED_MODES
from cellwright.permissions.policy import chosen_names
from cellwright.terminal.arguments import split_rules
from cellwright.terminal.exit_codes import ExitCode
from cellwright.terminal.subcommands.served_kernels import OwnKernels
from cellwright.this_process.late_imports import importing
from cellwright.tools.mcp.installed_extras import extra_problem
from cellwright.tools.mcp.kernel_tools import KERNEL_TOOLS, MAY_BE_SERVED, SERVED_TOOLS


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what `serve` takes."""
    parser.add_argument(
        "--tools",
        metavar="NAMES",
        action="append",
        default=[],
        help=f"the tools to offer, with commas: of {', '.join(_names(MAY_BE_SERVED))}, or groups of them such as @search "
        f"(default: {', '.join((*SERVED_TOOLS, *KERNEL_TOOLS))})",
    )
    parser.add_argument(
        "--permission-mode",
        metavar="MODE",
        default=None,
        choices=LISTED_MODES,
        help=f"what is asked for, allowed or denied where no rule says: {', '.join(LISTED_MODES)}",
    )
    parser.add_argument("--allowed-tools", metavar="RULES", action="append", default=[], help="allow without asking")
    parser.add_argument("--disallowed-tools", metavar="RULES", action="append", default=[], help="deny")
    parser.add_argument("--add-dir", metavar="FOLDER", action="append", default=[], help="a folder to work in besides")


def serve(options: argparse.Namespace) -> int:
    """Serve stdio until the client ends it. Raises CellwrightError for what is wrong with the options or the folder."""
    if problem := extra_problem("mcp"):
        raise CellwrightError(ErrorCode.CONFIG_INVALID, problem)
    given = tuple(name.strip() for given in options.tools for name in given.split(",") if name.strip())
    there = _names(MAY_BE_SERVED)
    # of a group those are meant that can be served
    chosen = [name for name in chosen_names(given) if name in there] if given else _names(SERVED_TOOLS)
    if unknown := [name for name in given if not set(chosen_names([name])).intersection(there)]:
        message = f"{', '.join(unknown)} cannot be served. There are: {', '.join(there)}."
        raise CellwrightError(ErrorCode.TOOL_NOT_FOUND, message)
    run_options = RunOptions(
        builtin_tools=False,
        tool_names=tuple(name for name in chosen if name not in KERNEL_TOOLS),
        mode=options.permission_mode,
        allow=split_rules(options.allowed_tools),
        deny=split_rules(options.disallowed_tools),
        add_dirs=tuple(existing_folder(folder) for folder in options.add_dir),
    )
    # Python's own way would wait for the thread that reads stdin; changes of files stand a sudden end
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(_serve(run_options, [name for name in chosen if name in KERNEL_TOOLS]))
    return ExitCode.OK


def _names(choices: Sequence[str]) -> list[str]:
    """The names of the tools that `choices` and the kernel's tools are."""
    return list(dict.fromkeys((*chosen_names(choices), *KERNEL_TOOLS)))


async def _serve(options: RunOptions, kernel_tool_names: Sequence[str]) -> None:
    with importing:
        from mcp.server.stdio import stdio_server  # takes a second

    from cellwright.conversation.core import Host
    from cellwright.features.conversation import Conversation
    from cellwright.tools.mcp.mcp_server import make_server

    cwd = start_folder(os.environ)
    conversation = Conversation(Host(cwd=cwd, interface="an MCP client"))
    try:
        calls = conversation.served_calls(options, lambda text: print(text, file=sys.stderr, flush=True))
        names = [name for name in kernel_tool_names if calls.allows(name)]
        kernels = OwnKernels(cwd, conversation.in_force.environment, _kernel_options(options), names)
        server = make_server(calls, cwd, kernels)
        try:
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        finally:
            await kernels.close()
        calls.close()
    finally:
        conversation.close()


def _kernel_options(options: RunOptions) -> dict[str, Any]:
    """The options as a kernel takes them."""
    folders = [str(folder) for folder in options.add_dirs]
    return {"mode": options.mode, "allow": list(options.allow), "deny": list(options.deny), "add_dirs": folders}
