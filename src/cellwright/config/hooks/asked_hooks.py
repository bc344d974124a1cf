"""Hooks for which somebody else is asked: an address, a tool of an MCP server, or a small model.

HTTP and MCP: the event goes there, and the answer is the hook's. No redirect is followed: neither the event nor a
header goes to an address that the user did not name. The text of a tool is read like what a program writes; of an
address a JSON object in a 2xx answer counts.

Prompt and agent: the model is asked about an event and answers `{"ok": true}`, or false and why. It answers through the
run's provider, and what it costs is counted with the run.
"""

from __future__ import annotations

import asyncio
import codecs
import fnmatch
import functools
import json
import os
import re
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace as variant
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.hooks.hook_answers import blocked, capped, merged, objects_in, only_no, read_printed, unread
from cellwright.agent.hooks.protocol import NO_HOOK_RESULT, NO_HOOKS, HookResult, HookRun
from cellwright.agent.loop import run_agent
from cellwright.agent.spending import NO_SHARED_BUDGETS
from cellwright.agent.subagent import MAX_TOKENS, SideRequest, text_of
from cellwright.agent.tool import ToolContext
from cellwright.config.hooks.command import failed, read_output, short
from cellwright.config.hooks.entries import _VARIABLE, HttpHook, McpToolHook, ModelHook, variables_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, RunEnd
from cellwright.model.pricing import worst_case_usd
from cellwright.redaction.redaction import is_secret
from cellwright.sessions.session import Session
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    pass


MAX_BYTES = 1_000_000
"""Of an answer."""

_HEADER_NAME = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

CallMcpTool = Callable[[str, str, Mapping[str, Any]], Awaitable[str]]
"""`await call(server, tool, input)` gives the tool's text. Raises LookupError where there is no such server or tool."""

_PLACEHOLDER = lazy_pattern(r"\$\{([\w.]+)\}")


ANSWER = (
    'Answer with one JSON object and nothing else: {"ok": true} when the condition is met, else '
    '{"ok": false, "reason": "why it is not"}. Add "impossible": true when it can never be met.'
)
_LOOKING = "You check a condition. Look at what you need with your tools, which only read, then answer. " + ANSWER

_ENDING = frozenset({"PostToolUse", "PostToolUseFailure", "PostToolBatch"})
"""The events for which a no ends the run, unless the hook says that Claude shall be told instead."""


class HookAddressRefused(Exception):
    """Raised with the reason that nothing was sent, or nothing taken."""


class HttpBounds(Struct, frozen=True):
    """The addresses HTTP hooks may send to and the variables their headers may hold; None: the hooks alone say so."""

    environ: Mapping[str, str]
    allowed_urls: Sequence[str] | None = None
    allowed_env_vars: Sequence[str] | None = None


async def send(hook: HttpHook, event: str, fields: Mapping[str, Any], bounds: HttpBounds) -> HookResult:
    """Send the event and read the answer. Never raises but for a cancellation."""
    try:
        check_url(hook.url, bounds.allowed_urls)
        status, body = await _posted(hook.url, _headers(hook, bounds), fields)
    except HookAddressRefused as problem:
        return failed(hook, event, str(problem))
    except (OSError, ValueError) as error:
        return failed(hook, event, f"could not be reached ({type(error).__name__})")
    if withheld := withheld_secrets(hook, bounds.environ):
        names = ", ".join(withheld)
        said = _read(hook, event, status, body)
        why = (
            f"The hook `{short(hook.name)}` was sent without {names}: only hooks in your own settings get your secrets"
        )
        return replace(said, problems=(*said.problems, f"{why} ({hook.source})."))
    return _read(hook, event, status, body)


def _read(hook: HttpHook, event: str, status: int, body: bytes) -> HookResult:
    printed = read_printed(_text(body))
    if not 200 <= status < 300:
        failure = failed(hook, event, f"answered with status {status}")
        return merged([only_no(read_output(hook, event, _text(body))), failure]) if printed.answers else failure
    if printed.answers or printed.attempt:
        return read_output(hook, event, _text(body))
    return failed(hook, event, "answered with something else than a JSON object") if body.strip() else NO_HOOK_RESULT


def _text(body: bytes) -> str:
    """An answer's text: UTF-8, or what its mark says."""
    encoding = "utf-16" if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    return body.decode(encoding, "replace")


def check_url(url: str, allowed: Sequence[str] | None) -> None:
    """Raises `HookAddressRefused` where an HTTP hook may not send to `url`."""
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or ".." in urllib.parse.unquote(parts.path).split("/"):
        raise HookAddressRefused("has no usable http or https address")
    if parts.username is not None or parts.password is not None:
        raise HookAddressRefused("has a name or password in its address; use a header")
    if allowed is not None and not any(_covers(pattern, parts) for pattern in allowed):
        raise HookAddressRefused("has an address that `allowedHttpHookUrls` does not allow")


def _covers(pattern: str, parts: urllib.parse.SplitResult) -> bool:
    """A pattern's host is held against the host alone: a `*` in it reaches no further."""
    try:
        allowed = urllib.parse.urlsplit(pattern)
    except ValueError:
        return False
    return (
        parts.scheme == allowed.scheme
        and _like(parts.netloc.casefold(), allowed.netloc.casefold())
        and _like(_path(parts), _path(allowed))
    )


def _path(parts: urllib.parse.SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _like(text: str, pattern: str) -> bool:
    """Return whether `text` is what `pattern` says, in which only `*` means something."""
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))


def withheld_secrets(hook: HttpHook, environ: Mapping[str, str]) -> list[str]:
    """The user's secret variables that `hook` asks for and that its origin does not let it send."""
    if hook.secrets is None:
        return []
    wanted = [name for name in variables_of(hook) if name in environ and name not in hook.secrets]
    return [name for name in wanted if is_secret(name, environ[name])]


def _headers(hook: HttpHook, bounds: HttpBounds) -> dict[str, str]:
    allowed = hook.allowed_env_vars - frozenset(withheld_secrets(hook, bounds.environ))
    if bounds.allowed_env_vars is not None:
        allowed &= frozenset(bounds.allowed_env_vars)

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return bounds.environ.get(name, "") if name in allowed else ""

    headers = {"content-type": "application/json", "user-agent": "cellwright"}
    for name, text in hook.headers:
        sent = _VARIABLE.sub(value, text).strip()
        if not _HEADER_NAME.fullmatch(name) or not (sent.isascii() and (sent.isprintable() or not sent)):
            raise HookAddressRefused(f"has a header {name!r} that cannot be sent")
        headers[name.lower()] = sent
    return headers


async def _posted(url: str, headers: Mapping[str, str], fields: Mapping[str, Any]) -> tuple[int, bytes]:
    body = json.dumps(fields, ensure_ascii=False, default=str).encode("utf-8", "replace")
    import httpx2  # 60 ms, which only who has such a hook pays for

    plain = url.startswith("http://") and not any(name.lower().endswith("_proxy") for name in os.environ)
    try:
        # making a client reads the certificates, which takes its time
        client = await asyncio.to_thread(
            lambda: httpx2.AsyncClient(follow_redirects=False, timeout=None, verify=not plain)
        )
        async with client, client.stream("POST", url, content=body, headers=dict(headers)) as response:
            taken = bytearray()
            async for chunk in response.aiter_bytes():
                taken += chunk
                if len(taken) > MAX_BYTES:
                    raise HookAddressRefused(f"answered with more than {MAX_BYTES:,} bytes")
            return response.status_code, bytes(taken)
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        raise HookAddressRefused(f"could not be reached ({type(error).__name__})") from error


async def call_tool(hook: McpToolHook, event: str, fields: Mapping[str, Any], call: CallMcpTool | None) -> HookResult:
    """Call the tool and read its answer. Never raises but for a cancellation."""
    if call is None:
        return failed(hook, event, "needs an MCP server, and none is connected here")
    try:
        text = await call(hook.server, hook.tool, filled_in(hook.input, fields))
    except Exception as error:  # noqa: BLE001  a server's own failure, of whatever kind, is no failure of the run
        return failed(hook, event, f"failed: {type(error).__name__}: {error}")
    return read_output(hook, event, text)


def filled_in(value: Any, fields: Mapping[str, Any]) -> Any:
    """`value` with each `${tool_input.x}` in its texts replaced by what the event says there."""
    if isinstance(value, Mapping):
        return {key: filled_in(item, fields) for key, item in value.items()}
    if isinstance(value, list):
        return [filled_in(item, fields) for item in value]
    if not isinstance(value, str):
        return value
    if whole := _PLACEHOLDER.fullmatch(value):
        return _look_up(whole[1], fields)
    return _PLACEHOLDER.sub(lambda found: _as_text(_look_up(found[1], fields)), value)


def _look_up(path: str, fields: Mapping[str, Any]) -> Any:
    found: Any = fields
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


async def ask_model(
    hook: ModelHook, event: str, fields: Mapping[str, Any], run: HookRun | None, small_model: str
) -> HookResult:
    """Ask and read the answer. Never raises but for a cancellation."""
    if run is None:
        return failed(hook, event, "has no model to ask outside of a run")
    model = hook.model or small_model
    told = json.dumps(fields, ensure_ascii=False, default=str)
    prompt = hook.prompt.replace("$ARGUMENTS", told) if "$ARGUMENTS" in hook.prompt else f"{hook.prompt}\n\n{told}"
    if not hook.looks and not _affordable(prompt, model, run.budget_left()):
        return failed(hook, event, f"was not asked: {model} could cost more than the budget has left")
    try:
        text = await (
            _ask_agent(prompt, model, run, Path(str(fields["cwd"]))) if hook.looks else _ask_model(prompt, model, run)
        )
    except CellwrightError as error:
        return failed(hook, event, f"got no answer from {model}: {error.message}")
    return read_verdict(hook, event, text)


def read_verdict(hook: ModelHook, event: str, text: str) -> HookResult:
    """Translate the model's answer into a result."""
    # it may stand in a fence or between words; of several a no counts
    found = [value for value in objects_in(text) if "ok" in value]
    verdict = next((value for value in found if value["ok"] is not True), found[-1] if found else None)
    if verdict is None or not isinstance(verdict.get("ok"), bool):
        return unread(event, f"The hook `{short(hook.name)}` ({event}) got no verdict from its model: {short(text)}.")
    if verdict["ok"]:
        return NO_HOOK_RESULT
    reason = capped(str(verdict.get("reason") or "")) or f"the condition is not met: {short(hook.prompt)}"
    if event in ("Stop", "SubagentStop") and verdict.get("impossible") is True:
        return HookResult(messages=(f"The hook's condition cannot be met: {reason}",))
    if event == "PermissionRequest":
        return HookResult(behavior="deny", reason=reason)
    if event in _ENDING and not hook.feeds_back:
        return replace(blocked(event, reason), stop=reason)
    return blocked(event, reason)


def _affordable(prompt: str, model: str, left: float | None) -> bool:
    """Return whether the budget pays for an answer at worst; an agent hook sees to that itself, by request."""
    if left is None:
        return True
    # three bytes a token is more than any text costs
    worst = worst_case_usd(model, len(prompt.encode("utf-8", "replace")) // 3, MAX_TOKENS)
    return worst is not None and worst <= left


async def _ask_model(prompt: str, model: str, run: HookRun) -> str:
    ctx = ToolContext("hook", lambda **_: None, spend=functools.partial(run.spend, model))
    turn = await SideRequest(lambda: run.agent.provider, model).ask(
        [{"role": "user", "content": [{"type": "text", "text": f"{prompt}\n\n{ANSWER}"}]}], ctx
    )
    return text_of(turn)


async def _ask_agent(prompt: str, model: str, run: HookRun, cwd: Path) -> str:
    """The answer of an agent that may look at files first."""
    system = ({"type": "text", "text": _LOOKING},)
    end = await _run_agent(run, prompt, cwd, model, system)
    if end.error is not None:
        raise CellwrightError(ErrorCode(end.error["code"]), end.error["message"])
    return end.text


async def _run_agent(run: HookRun, prompt: str, cwd: Path, model: str, system: Sequence[Mapping[str, Any]]) -> RunEnd:
    """Have an agent answer that has the run's reading tools, its rules and what is left of its budget."""

    def on_event(event: Event) -> None:
        if isinstance(event, RunEnd):
            run.spend(model, event.usage, event.cost_usd)

    agent = variant(
        run.agent,
        model=model,
        system=system,
        tools=tuple(tool for tool in run.agent.tools if tool.read_only and tool.asks == "permission"),
        can_use_tool=None,
        limits=variant(
            run.agent.limits,
            # requests that an agent hook may make
            max_turns=50,
            budget_usd=run.budget_left(),
            shared_budgets=NO_SHARED_BUDGETS,  # `budget_left` looks at them, and the run counts there
        ),
        model_settings=variant(run.agent.model_settings.with_choice(None), plan_model=None),
        final_answer=variant(run.agent.final_answer, proposals=None),
        hooks=NO_HOOKS,
    )
    return await run_agent(agent, prompt, Session.create(cwd, None), on_event)
