"""`cellwright mcp login` and `logout`: signing in to a server in one's browser, and forgetting that again."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import os
import sys
from collections.abc import Callable, Iterator

from cellwright.config.settings.settings_files import start_folder
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.mcp.feature import McpServers
from cellwright.terminal.exit_codes import ExitCode
from cellwright.text import visible_line
from cellwright.tools.mcp.installed_extras import extra_problem

MAX_ADDRESS = 16_000


def login(options: argparse.Namespace) -> int:
    """Show the address to open, and wait until the user has signed in. Raises CellwrightError."""
    if problem := extra_problem("mcp"):
        raise CellwrightError(ErrorCode.CONFIG_INVALID, problem)
    secret = getpass.getpass("Client secret: ") if options.client_secret else ""
    asyncio.run(_login(_servers(), options.name, secret))
    return ExitCode.OK


def logout(options: argparse.Namespace) -> int:
    """Delete what is kept of a server. Raises CellwrightError."""
    servers = _servers()
    _check_known(servers, options.name)
    name = visible_line(options.name)
    if not asyncio.run(servers.sign_out(options.name)):
        print(f"{name}: you were not signed in.")
        return ExitCode.OK
    print(f"{name}: you are signed out. What it was given itself it may keep: revoke that on its own pages.")
    return ExitCode.OK


def _servers() -> McpServers:
    found = McpServers(SettingsInForce(start_folder(os.environ), os.environ), lambda: None)  # none is started
    found.refresh()
    return found


def _check_known(servers: McpServers, name: str) -> None:
    if name not in servers.found.entries:
        known = ", ".join(servers.found.entries) or "none"
        why = servers.found.refused.get(name) or ("waits for your approval" if name in servers.found.pending else "")
        message = f"The MCP server {visible_line(name)} {why or 'is not there'}. There are: {known}."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


async def _login(servers: McpServers, name: str, secret: str) -> None:
    _check_known(servers, name)
    sign_in = await servers.sign_in(name, secret)
    print(f"Open this address in your browser:\n\n{sign_in.link}\n")
    print("Is the browser on another machine, paste the address that it is sent to in the end.", flush=True)

    def pasted(line: str) -> None:
        try:
            sign_in.paste(line)
        except CellwrightError as error:
            print(error.message, flush=True)

    with _each_line(pasted):
        await sign_in.done()
    await servers.close()
    print(f"You are signed in to {visible_line(name)}.")


@contextlib.contextmanager
def _each_line(take: Callable[[str], None]) -> Iterator[None]:
    """Call `take` for each line of the standard input, where that can be listened to without a thread."""
    loop = asyncio.get_running_loop()
    pending = bytearray()

    def readable() -> None:
        chunk = os.read(descriptor, MAX_ADDRESS)
        pending.extend(chunk)
        if not chunk or len(pending) > MAX_ADDRESS:
            loop.remove_reader(descriptor)
        *lines, rest = bytes(pending).split(b"\n")
        pending[:] = rest
        for line in lines:
            if line.strip():
                take(line.decode("utf-8", "replace").strip())

    try:
        descriptor = sys.stdin.fileno()
        loop.add_reader(descriptor, readable)
    except (OSError, ValueError, NotImplementedError):  # a plain file, none at all, Windows
        yield
        return
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
