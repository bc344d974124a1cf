"""Checks of the way to the API: the credential, its acceptance by the API, and obstacles in between.

No tokens are spent.
"""

from __future__ import annotations

import asyncio
import email.utils
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping

from msgspec import Struct

from cellwright.config.credentials.stored_key import kept_source, with_helpers_key, with_key
from cellwright.config.settings.settings import Settings
from cellwright.doctor.check import Check, Finding, Status
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.claude_code_sign_in import find_program, sign_in
from cellwright.model.credentials import choose_transport, source_of_credential
from cellwright.model.retry import RequestFailed, failure_of_response
from cellwright.model.transports.sdk_transport import SdkTransport
from cellwright.model.transports.transport import DEFAULT_BASE_URL, Transport

SECONDS = 4.5
SKEW_SECONDS = 120.0
"""The number of seconds the clock may be off before signatures and retry times go wrong."""

MODELS = "/v1/models?limit=1"


def connection_checks(environ: Mapping[str, str], settings: Settings) -> list[Check]:
    """The checks of the way to the API, or to the program that asks it."""
    if settings.provider == "claude-code":
        return [Check("Claude Code", lambda: claude_code(environ)), Check("proxy", lambda: proxy(environ))]
    return [
        Check("credential", lambda: credential(environ, settings)),
        Check("API", lambda: api(environ, settings), online=True),
        Check("proxy", lambda: proxy(environ)),
    ]


def credential(environ: Mapping[str, str], settings: Settings) -> Finding:
    """Name the source of the credential; never a part of it."""
    if (place := kept_source(environ, own_credentials=settings.own_credentials)) and settings.api_key_helper is None:
        return Finding("credential", "ok", f"`cellwright auth login` ({place})")
    source = source_of_credential(environ)
    if source is not None:
        origin = settings.origin(f"env.{source}")
        return Finding("credential", "ok", f"{source} ({origin.label})" if origin else source)
    if settings.api_key_helper is not None:
        try:
            with_helpers_key(environ, settings.api_key_helper)
        except CellwrightError as error:
            return Finding(
                "credential", "problem", error.message, "The command has to print the key, and nothing else."
            )
        return Finding("credential", "ok", "apiKeyHelper gave a key")
    try:
        choose_transport(environ)
    except CellwrightError as error:
        what, _, how = error.message.partition("\n")
        return Finding("credential", "problem", what, how)
    return Finding("credential", "ok", "found by the SDK")


def claude_code(environ: Mapping[str, str]) -> Finding:
    """Name the program that asks, and who is signed in there; never a part of a credential."""
    try:
        program = find_program(environ)
    except CellwrightError as error:
        return Finding("Claude Code", "problem", error.message)
    found = sign_in(program, environ)
    if found is None:
        return Finding("Claude Code", "warning", f"{program} does not say who is signed in", "It may be too old.")
    if not found.signed_in:
        return Finding("Claude Code", "problem", f"{program}: {found.words}", f"Run `{program} auth login`.")
    return Finding("Claude Code", "ok", f"{program}: {found.words}")


class _Answer(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes


def api(environ: Mapping[str, str], settings: Settings, seconds: float = SECONDS) -> Finding:
    """Check whether the API is reached within `seconds`, takes the credential, and lives in the same time."""
    try:
        environ = with_key(environ, settings.api_key_helper, own_credentials=settings.own_credentials)
        transport = choose_transport(environ)
    except CellwrightError as error:
        if error.code == ErrorCode.API_KEY_MISSING:
            return Finding("API", "warning", "not asked: there is no credential")
        return Finding("API", "problem", error.message)
    address = _address(environ)
    if isinstance(transport, SdkTransport) and transport.platform != "anthropic":
        found = f"not asked: {transport.platform} answers no question that is free"
        return Finding("API", "ok", found, "`cellwright -p hello` says whether it works.")
    try:
        answer = asyncio.run(_request(transport, seconds))
    except (RequestFailed, CellwrightError) as error:
        said = error.failure.message if isinstance(error, RequestFailed) else error.message
        return Finding("API", "problem", f"{address}: {transport.redact(said)}")
    except TimeoutError:
        return Finding(
            "API", "problem", f"{address} did not answer within {seconds:g} s", "Check the network and the proxy."
        )
    return _judged(answer, address, transport)


async def _request(transport: Transport, seconds: float) -> _Answer:
    try:
        async with asyncio.timeout(seconds), transport.get(MODELS, seconds=seconds) as reply:
            return _Answer(reply.status, reply.headers, await reply.body(100_000))
    finally:
        await transport.aclose()


def _judged(answer: _Answer, address: str, transport: Transport) -> Finding:
    late = _clock_is_off(answer.headers)
    if answer.status == 404:
        found = f"{address} answers, but lists no models: a gateway, or a local server"
        return Finding("API", "warning", found, "Whether the credential is taken, the first prompt says.")
    if answer.status != 200:
        failure = failure_of_response(answer.status, answer.headers, answer.body, model="", now=time.time())
        passes = answer.status in (408, 429) or answer.status >= 500
        status: Status = "warning" if passes else "problem"
        return Finding("API", status, f"{address}: {transport.redact(failure.message)}")
    if late:
        return Finding("API", "warning", f"{address} takes the credential; {late}", "Set the clock of this machine.")
    return Finding("API", "ok", f"{address} takes the credential")


def _clock_is_off(headers: Mapping[str, str]) -> str:
    """Say in words how far the clock here is from the API's; "" where it is near enough or not known."""
    try:
        sent = email.utils.parsedate_to_datetime(headers.get("date", "")).timestamp()
    except ValueError:
        return ""
    off = time.time() - sent
    return f"the clock here is {abs(off):,.0f} s {'ahead' if off > 0 else 'behind'}" if abs(off) > SKEW_SECONDS else ""


def _address(environ: Mapping[str, str]) -> str:
    """Return the address requests go to, without what may be secret in it."""
    return _without_user(environ.get("ANTHROPIC_BASE_URL", "").strip() or DEFAULT_BASE_URL)


def _without_user(url: str) -> str:
    try:
        # `user:password@host:3128`, without a scheme, is what many write for a proxy
        parts = urllib.parse.urlsplit(url if "://" in url else f"//{url}")
        host = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    except ValueError:
        return "an address that makes no sense"
    if not parts.hostname:
        return "an address without a host"
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else f"{host}{parts.path}"


def proxy(environ: Mapping[str, str]) -> Finding:
    """Name the proxy on the way to the API: the process's own environment says so, and no settings file."""
    proxies = urllib.request.getproxies()
    scheme = urllib.parse.urlsplit(_address(environ)).scheme
    used = proxies.get(scheme) or proxies.get("all")
    own = "SSL_CERT_FILE" in environ or "SSL_CERT_DIR" in environ
    certificates = "; certificates of your own (SSL_CERT_FILE, SSL_CERT_DIR)" if own else ""
    return Finding("proxy", "ok", f"{_without_user(used) if used else 'none'}{certificates}")
