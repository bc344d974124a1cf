"""HTTP and MCP hooks: the event goes to an address, or to a tool of an MCP server; the answer is the hook's.

No redirect is followed: neither the event nor a header goes to an address that the user did not name.
The text of a tool is read like what a program writes; of an address a JSON object in a 2xx answer counts.
"""

from __future__ import annotations

import asyncio
import codecs
import fnmatch
import json
import os
import re
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.hooks.hook_answers import merged, only_no, read_printed
from cellwright.agent.hooks.protocol import NO_HOOK_RESULT, HookResult
from cellwright.config.hooks.command import failed, read_output, short
from cellwright.config.hooks.entries import HttpHook, McpToolHook
from cellwright.redaction.redaction import is_secret
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    import httpx2

MAX_BYTES = 1_000_000
"""Of an answer."""

_VARIABLE = lazy_pattern(r"\$(?:\{(\w+)\}|(\w+))")
_HEADER_NAME = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

CallMcpTool = Callable[[str, str, Mapping[str, Any]], Awaitable[str]]
"""`await call(server, tool, input)` gives the tool's text. Raises LookupError where there is no such server or tool."""

_PLACEHOLDER = lazy_pattern(r"\$\{([\w.]+)\}")


class HookAddressRefused(Exception):
    """Raised with the reason that nothing was sent, or nothing taken."""


class HttpBounds(Struct, frozen=True):
    """The addresses HTTP hooks may send to and the variables their headers may hold; None: the hooks alone say so."""

    environ: Mapping[str, str]
    allowed_urls: Sequence[str] | None = None
    allowed_env_vars: Sequence[str] | None = None


async def send(hook: HttpHook, event: str, fields: Mapping[str, Any], bounds: HttpBounds) -> HookResult:
    """Send the event and read the answer. Never raises but for a cancellation."""
    import httpx2  # 60 ms, which only who has such a hook pays for

    try:
        check_url(hook.url, bounds.allowed_urls)
        status, body = await _posted(hook.url, _headers(hook, bounds), fields)
    except HookAddressRefused as problem:
        return failed(hook, event, str(problem))
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError) as error:
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


def variables_of(hook: HttpHook) -> list[str]:
    """The variables whose values the headers of `hook` ask for and its `allowedEnvVars` allow, in their order."""
    named = dict.fromkeys(found[1] or found[2] for _, text in hook.headers for found in _VARIABLE.finditer(text))
    return [name for name in named if name in hook.allowed_env_vars]


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
    # making a client reads the certificates, which takes its time
    client = await asyncio.to_thread(_client, url)
    async with client, client.stream("POST", url, content=body, headers=dict(headers)) as response:
        taken = bytearray()
        async for chunk in response.aiter_bytes():
            taken += chunk
            if len(taken) > MAX_BYTES:
                raise HookAddressRefused(f"answered with more than {MAX_BYTES:,} bytes")
        return response.status_code, bytes(taken)


def _client(url: str) -> httpx2.AsyncClient:
    import httpx2

    plain = url.startswith("http://") and not any(name.lower().endswith("_proxy") for name in os.environ)
    return httpx2.AsyncClient(follow_redirects=False, timeout=None, verify=not plain)


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
