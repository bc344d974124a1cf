"""`cellwright mcp` and `cellwright plugin`: the servers and plugins that are configured, added, approved, removed.

Of these nothing is started, and nothing reached but by `login`: `/mcp` in a conversation shows what became of a server.
`serve` is the other direction: Cellwright as a server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from cellwright.commands.extensions.plugins import PluginCommands
from cellwright.config.mcp.written_servers import (
    SCOPES,
    Scope,
    remove_server,
    server_place,
    servers_at,
    write_server,
)
from cellwright.config.plugins.options import PluginOption
from cellwright.config.settings.settings_files import start_folder
from cellwright.config.settings.settings_in_force import SettingsInForce, TrustQuestion
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.mcp.feature import McpServers
from cellwright.terminal.exit_codes import ExitCode
from cellwright.terminal.subcommands import mcp_serve
from cellwright.terminal.views.streams import print_line
from cellwright.text import visible, visible_line
from cellwright.tools.mcp.installed_extras import extra_problem
from cellwright.version import documented

Do = Callable[[argparse.Namespace], int]

MAX_ADDRESS = 16_000


def mcp(argv: Sequence[str]) -> int:
    """Do what `argv` says. Raises CellwrightError for a server that there is not, an entry or a file that is wrong."""
    options = _parser().parse_args(argv)
    do: Do = options.do
    return do(options)


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="cellwright mcp",
        description=f"The MCP servers of this folder. {documented('mcp')} says what they are and what limits them.",
        allow_abbrev=False,
    )
    made.set_defaults(do=_list, json=False)
    commands = made.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, do: Do, help: str) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        parser.set_defaults(do=do)
        return parser

    scope_help = "whose it is: yours for this project (local, ~/.claude.json), yours everywhere (user), or .mcp.json's"
    add = command(
        "add", _add, "add a server: cellwright mcp add NAME -- COMMAND ARGS, or with --transport http NAME URL"
    )
    add.add_argument("-s", "--scope", choices=SCOPES, default="local", help=scope_help)
    add.add_argument("-t", "--transport", choices=("stdio", "http", "sse"), default="stdio", help="how it is reached")
    add.add_argument(
        "-e", "--env", metavar="NAME=VALUE", action="append", default=[], help="a variable for the program"
    )
    add.add_argument("-H", "--header", metavar="NAME: VALUE", action="append", default=[], help="a header to send")
    add.add_argument("name", metavar="NAME")
    add.add_argument("target", metavar="COMMAND-OR-URL")
    add.add_argument("args", metavar="ARGS", nargs=argparse.REMAINDER)
    add_json = command("add-json", _add_json, "add a server by its entry")
    add_json.add_argument("-s", "--scope", choices=SCOPES, default="local", help=scope_help)
    add_json.add_argument("name", metavar="NAME")
    add_json.add_argument("entry", metavar="JSON")
    remove = command("remove", _remove, "remove a server")
    remove.add_argument(
        "-s", "--scope", choices=SCOPES, default=None, help="where; needed if it is configured in several places"
    )
    remove.add_argument("name", metavar="NAME")
    listed = command("list", _list, "the servers with where they are configured, and what waits for you")
    listed.add_argument("--json", action="store_true", help="as JSON, for programs")
    get = command("get", _get, "one server; the exit code is 1 if it is not found")
    get.add_argument("name", metavar="NAME")
    approve = command("approve", _approve, "let a server of this project's .mcp.json run, as it is now")
    approve.add_argument("name", metavar="NAME")
    sign_in = command("login", _sign_in, "sign in to a server: shows the address to open in your browser")
    sign_in.add_argument("name", metavar="NAME")
    sign_in.add_argument(
        "--client-secret",
        action="store_true",
        help="ask for the secret of the client that the entry names (`oauth.clientId`)",
    )
    sign_out = command("logout", _sign_out, "sign out of a server: delete its tokens")
    sign_out.add_argument("name", metavar="NAME")
    mcp_serve.add_options(command("serve", mcp_serve.serve, "serve this folder's files and notebooks over stdio"))
    return made


def _servers() -> McpServers:
    found = McpServers(SettingsInForce(start_folder(os.environ), os.environ), lambda: None)  # none is started
    found.refresh()
    return found


def _list(options: argparse.Namespace) -> int:
    found = _servers().found
    rows = [
        *((name, entry.transport, entry.address, entry.scope, "") for name, entry in found.entries.items()),
        *(
            (name, each.entry.transport, each.entry.address, "project", "waits for your approval")
            for name, each in found.pending.items()
        ),
        *((name, "", "", "", why) for name, why in found.refused.items()),
    ]
    if options.json:
        keys = ("name", "transport", "address", "scope", "problem")
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows]))
        return ExitCode.OK
    for name, transport, address, scope, problem in rows:
        about = f"{visible_line(address, 200)} ({transport}, {scope})" if address else ""
        print(": ".join(filter(None, (visible_line(name), about))) + (f" - {problem}" if problem else ""))
    if not rows:
        print_line("No MCP servers are configured. `cellwright mcp add` adds one.", sys.stdout)
    for notice in found.notices:
        print(notice)
    return ExitCode.OK


def _get(options: argparse.Namespace) -> int:
    found, name = _servers().found, options.name
    entry = found.entries.get(name) or (found.pending[name].entry if name in found.pending else None)
    if entry is None:
        print(f"{visible_line(name)}: {found.refused.get(name, 'there is no such server')}")
        return ExitCode.FAILED
    waits = " (waits for your approval)" if name in found.pending else ""
    print(f"{visible_line(name)}: {entry.transport}, {entry.scope}{waits}")
    print(f"  from: {entry.label}")
    print(f"  {'reaches' if entry.url else 'runs'}: {visible_line(entry.address, 500)}")
    for what, named in (("variables", entry.env), ("headers", entry.headers)):
        if named:  # their values may be secret
            print(f"  {what}: {', '.join(named)}")
    return ExitCode.OK


def _approve(options: argparse.Namespace) -> int:
    servers = _servers()
    if options.name not in servers.found.pending:
        known = ", ".join(servers.found.pending) or "none"
        message = f"No MCP server {visible_line(options.name)} waits for your approval. There are: {known}."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    lines = servers.described(options.name)
    if secrets := servers.secrets_of(options.name):
        lines.append(f"it would be given your {', '.join(secrets)}")
    for line in lines:
        print(f"  {line}")
    servers.approve(options.name)
    print(f"{visible_line(options.name)} may run from now on, as it is configured now.")
    return ExitCode.OK


def _add(options: argparse.Namespace) -> int:
    arguments = options.args[1:] if options.args[:1] == ["--"] else options.args
    target = options.target
    if target == "--" and arguments:
        target, *arguments = arguments
    entry: dict[str, Any] = {"type": options.transport}
    if options.transport == "stdio":
        if options.header:
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, "--header goes with --transport http or sse.")
        if target.startswith(("http://", "https://")):
            message = f"{target} is an address: say --transport http, or sse. Nothing was changed."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        entry |= {"command": target, "args": list(arguments), "env": _pairs(options.env, "=", "--env")}
    else:
        if arguments or options.env:
            raise CellwrightError(
                ErrorCode.INVALID_PARAMETERS, "A server with an address has no arguments and no --env."
            )
        entry |= {"url": target}
        if options.header:
            entry["headers"] = _pairs(options.header, ":", "--header")
    return _write(options.name, entry, options.scope)


def _add_json(options: argparse.Namespace) -> int:
    try:
        entry = json.loads(options.entry)
    except ValueError as error:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"The entry is not valid JSON: {error}") from None
    return _write(options.name, entry, options.scope)


def _write(name: str, entry: Any, scope: Scope) -> int:
    cwd = start_folder(os.environ)
    place = server_place(scope, cwd, os.environ)
    if name in servers_at(place):
        message = f"There is an MCP server {name} in {place.file} already. `cellwright mcp remove {name}` takes it out."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    write_server(place, name, entry, cwd, os.environ)
    print(f"Added {visible_line(name)} to {place.file}.")
    if scope == "project":
        print("Everybody who works here is asked before it runs; so are you, once.")
    return ExitCode.OK


def _remove(options: argparse.Namespace) -> int:
    cwd = start_folder(os.environ)
    scopes = (options.scope,) if options.scope else SCOPES
    places = {scope: server_place(scope, cwd, os.environ) for scope in scopes}
    there = {scope: place for scope, place in places.items() if options.name in servers_at(place)}
    if not there:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"MCP server {options.name} was not found.")
    if len(there) > 1:
        message = (
            f"{options.name} is configured in several places: give --scope {' or '.join(there)}. Nothing was changed."
        )
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    (place,) = there.values()
    remove_server(place, options.name)
    print(f"Took {visible_line(options.name)} out of {place.file}.")
    return ExitCode.OK


def _pairs(given: Sequence[str], sign: str, option: str) -> dict[str, str]:
    pairs = [each.partition(sign) for each in given]
    if any(not found or not name.strip() for name, found, _ in pairs):
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{option} takes NAME{sign}VALUE.")
    return {name.strip(): value.strip() if sign == ":" else value for name, _, value in pairs}


def _sign_in(options: argparse.Namespace) -> int:
    """Show the address to open, and wait until the user has signed in. Raises CellwrightError."""
    if problem := extra_problem("mcp"):
        raise CellwrightError(ErrorCode.CONFIG_INVALID, problem)
    secret = getpass.getpass("Client secret: ") if options.client_secret else ""
    asyncio.run(_wait_for_sign_in(_servers(), options.name, secret))
    return ExitCode.OK


def _sign_out(options: argparse.Namespace) -> int:
    """Delete what is kept of a server. Raises CellwrightError."""
    servers = _servers()
    _check_known(servers, options.name)
    name = visible_line(options.name)
    if not asyncio.run(servers.sign_out(options.name)):
        print(f"{name}: you were not signed in.")
        return ExitCode.OK
    print(f"{name}: you are signed out. What it was given itself it may keep: revoke that on its own pages.")
    return ExitCode.OK


def _check_known(servers: McpServers, name: str) -> None:
    if name not in servers.found.entries:
        known = ", ".join(servers.found.entries) or "none"
        why = servers.found.refused.get(name) or ("waits for your approval" if name in servers.found.pending else "")
        message = f"The MCP server {visible_line(name)} {why or 'is not there'}. There are: {known}."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


async def _wait_for_sign_in(servers: McpServers, name: str, secret: str) -> None:
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


def plugin(argv: Sequence[str]) -> int:
    """Do one plugin command; FAILED where the user was asked and did not say yes. Raises `CellwrightError`."""
    parser = argparse.ArgumentParser(
        prog="cellwright plugin",
        description="Plugins: list, show NAME, install WHAT (NAME@MARKETPLACE, a folder, a repository), enable NAME, "
        "disable NAME, configure NAME [OPTION[=VALUE]], update [NAME], remove NAME, marketplace list, add PLACE, "
        "update [NAME], remove NAME.",
        allow_abbrev=False,
    )
    parser.add_argument("words", metavar="COMMAND", nargs="*", help="default: list")
    parser.add_argument("-y", "--yes", action="store_true", help="accept what is shown without being asked")
    options = parser.parse_intermixed_args(argv)
    refused = False

    async def accept(question: TrustQuestion) -> Literal["yes", "no", "nobody"]:
        nonlocal refused
        print(f"{question.title}?\n{visible(question.detail)}\n{question.reason}", file=sys.stderr)
        if options.yes:
            return "yes"
        answer: Literal["yes", "no", "nobody"] = "nobody"
        if sys.stdin.isatty():
            print(f"{question.yes}? [y/N] ", end="", file=sys.stderr, flush=True)
            answer = "yes" if sys.stdin.readline().strip().lower() in ("y", "yes") else "no"
        refused = refused or answer != "yes"
        return answer

    def ask(option: PluginOption) -> str:
        default = f" [{option.default}]" if option.default is not None else ""
        words = f"{visible(option.words)}{default}: "
        if option.sensitive:
            return getpass.getpass(words, stream=sys.stderr)
        print(words, end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip()

    in_force = SettingsInForce(start_folder(os.environ), os.environ)
    can_ask = sys.stdin.isatty()
    page = asyncio.run(PluginCommands(in_force, accept, ask if can_ask else None).do(options.words))
    print(page.plain())
    return ExitCode.FAILED if refused else ExitCode.OK
