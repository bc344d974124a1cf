"""Hooks in words, for the user who is to consent: all that the runner uses of an entry, and nothing else.

The words are made from the entry that runs, by its type, never from the file: a field that decides nothing is not shown,
and one that decides something is. Each text is whole, and reads like no other (`exact`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cellwright.agent.hooks.callbacks import MATCHED_FIELDS
from cellwright.config.hooks.entries import (
    CommandHook,
    Entries,
    HookEntry,
    HooksOrigin,
    HttpHook,
    McpToolHook,
    ModelHook,
)
from cellwright.config.hooks.http_and_mcp import variables_of
from cellwright.config.trust.exact_text import block, exact, exact_json, program_lines
from cellwright.redaction.redaction import is_secret
from cellwright.text import lazy_pattern

NOT_SHOWN = frozenset({"identity", "source", "from_project", "secrets", "variables", "seconds"})
"""Fields that nobody outside receives: which entry it is, whose it is, and its time. `variables` are the plugin's own."""

_PLAIN_MATCHER = lazy_pattern(r"[\w *|,.-]+")
_SHELL_VARIABLE = lazy_pattern(r"\$\{?(?P<name>[A-Za-z_]\w*)")


def described_hooks(
    events: Mapping[str, Sequence[Any]], origin: HooksOrigin, environ: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Describe the hooks of `events`, each in a block of lines; then why others are unreadable."""
    entries = Entries()
    entries.add("", events, origin)
    texts = [described_hook(event, entry, environ) for event, found in entries.by_event.items() for entry in found]
    return texts, [problem.removeprefix(": ") for problem in entries.left_out]


def described_hook(event: str, entry: HookEntry, environ: Mapping[str, str]) -> str:
    """Describe one hook: what it does in the first line, with what and when in those below."""
    match entry:
        case CommandHook():
            does, *details = _command(entry)
        case HttpHook():
            does, *details = _http(entry, environ)
        case McpToolHook():
            does, *details = _mcp_tool(entry)
        case ModelHook():
            does, *details = _model(entry)
        case _:
            raise AssertionError(f"unknown kind of hook: {entry!r}")
    plain = (
        event in MATCHED_FIELDS and _PLAIN_MATCHER.fullmatch(entry.matcher) and exact(entry.matcher) == entry.matcher
    )
    head = f"hook {event} ({entry.matcher}): {does}" if plain else f"hook {event}: {does}"
    if entry.matcher and not plain:
        details.append(f"matcher: {exact(entry.matcher)}")
    return block(head, *details, *_conditions(entry), *_secrets(entry, environ))


def _conditions(entry: HookEntry) -> Iterator[str]:
    if entry.condition:
        yield f"if: {exact(entry.condition)}"
    if entry.once:
        yield "once in a session"
    if entry.blocks_on_failure:
        yield "its failure counts as a no"
    if entry.status:
        yield f"shows while it runs: {exact(entry.status)}"


def _command(entry: CommandHook) -> Iterator[str]:
    if entry.args is None:
        yield f"runs {exact(entry.command)}"
    else:
        line, *args = program_lines(entry.command, entry.args)
        yield f"runs the program {line}"
        yield from args
    if entry.powershell:
        yield "shell: powershell"
    if entry.in_background:
        yield "in the background, where its answer may make Claude continue" if entry.wakes else "in the background"


def _http(entry: HttpHook, environ: Mapping[str, str]) -> Iterator[str]:
    yield f"sends the event to {exact(entry.url)}"
    yield from (f"header {exact(name)}: {exact(value)}" for name, value in entry.headers)
    if entry.allowed_env_vars:
        yield f"allowedEnvVars: {', '.join(map(exact, sorted(entry.allowed_env_vars)))}"
    withheld: list[str] = []
    sent: list[str] = []
    for name in variables_of(entry):
        secret = is_secret(name, environ.get(name, "")) and entry.secrets is not None and name not in entry.secrets
        (withheld if secret else sent).append(name)
    if sent:
        yield f"sends your variables: {', '.join(sent)}"
    if withheld:
        yield f"does not get your secret variables: {', '.join(withheld)}"


def _mcp_tool(entry: McpToolHook) -> Iterator[str]:
    yield f"calls an MCP tool: {exact(entry.tool)}"
    yield f"of the server: {exact(entry.server)}"
    if entry.input:
        yield f"with the input: {exact_json(entry.input)}"


def _model(entry: ModelHook) -> Iterator[str]:
    yield f"asks {'an agent that reads files' if entry.looks else 'a model'}: {exact(entry.prompt)}"
    if entry.model:
        yield f"model: {exact(entry.model)}"
    if entry.feeds_back:
        yield "a no is Claude's to read, and ends no run"


def _secrets(entry: HookEntry, environ: Mapping[str, str]) -> Iterator[str]:
    """Name the secret variables that a command line or an address names, although no hook's program gets them."""
    texts: tuple[str, ...] = ()
    if isinstance(entry, CommandHook):
        texts = (entry.command, *(entry.args or ()))
    elif isinstance(entry, HttpHook):
        texts = (entry.url,)
    names = dict.fromkeys(found["name"] for text in texts for found in _SHELL_VARIABLE.finditer(text))
    own = dict(entry.variables)
    if secrets := [name for name in names if name not in own and is_secret(name, environ.get(name, ""))]:
        yield f"names your secret variables, which it does not get: {', '.join(secrets)}"
