"""A key that somebody enters, in a terminal, a cell or the panel: tried with a request that costs nothing, then kept.

And the source of the key that counts, in words.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from msgspec import Struct

from cellwright.config.credentials.stored_key import Place, address_of, keep, kept_source, note_path
from cellwright.config.settings.settings import Settings
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.credentials import source_of_credential
from cellwright.model.retry import RequestFailed, failure_of_response
from cellwright.model.transports.transport import DEFAULT_BASE_URL, KeyTransport

NO_KEY = "none: `cellwright auth login` adds one"


KEYS_PAGE = "https://platform.claude.com/settings/keys"
"""The page where Anthropic gives keys out."""

TEST_PATH = "/v1/models?limit=1"
TEST_SECONDS = 30.0


class KeptKey(Struct, frozen=True):
    """The key that was kept: where, for which address, and whether that address was able to say that it takes it.

    `overruled_by` names what goes before it (a variable, `apiKeyHelper`); empty where it counts.
    """

    place: Place
    address: str
    tried: bool
    overruled_by: str

    @property
    def sentence(self) -> str:
        """Say where the key is."""
        untried = "" if self.tried else f" {self.address} lists no models, so the key was not tested."
        return f"Key saved in {place_words(self.place)}. It is sent to {self.address} alone.{untried}"


def place_words(place: Place) -> str:
    """Name the place of the key for its user."""
    return "the system's keyring" if place == "keyring" else f"{note_path()}, which only you can read"


async def try_and_keep(
    text: str, environ: Mapping[str, str], *, helper: str | None, own_credentials: bool = True
) -> KeptKey:
    """Try the key that `text` is at the address that `environ` says, and keep it. Raises `CellwrightError`, keeping none."""
    if not own_credentials:
        message = "The administrator's settings don't allow keys of your own. Nothing was saved."
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)
    key, address = key_of(text), address_of(environ)
    tried = await _is_taken(key, address)
    try:
        place = await asyncio.to_thread(keep, key, address)  # a keyring may ask its user to unlock it
    except OSError as error:
        message = f"The key could not be saved in {note_path()} ({error.strerror}). Nothing was changed."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from None
    return KeptKey(place, address, tried, overruled_by(environ, helper))


def key_of(text: str) -> str:
    """The key in what was typed. Raises `CellwrightError`."""
    key = text.strip()
    if not key or len(key) > 1_000 or not key.isascii() or not key.isprintable() or " " in key:
        message = "This is not a key: a key is one word of letters, digits and signs. Nothing was sent or saved."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return key


async def _is_taken(key: str, address: str) -> bool:
    """Try the key; False where the address has no request that costs nothing. Raises `CellwrightError`."""
    transport = KeyTransport(token=key, base_url=address)
    try:
        async with asyncio.timeout(TEST_SECONDS), transport.get(TEST_PATH, seconds=TEST_SECONDS) as reply:
            body = await reply.body(100_000)
    except RequestFailed as failed:
        raise _not_kept(failed.failure.code, transport.redact(failed.failure.message)) from None
    except TimeoutError:
        raise _not_kept(ErrorCode.API_NETWORK_ERROR, f"{address} did not answer.") from None
    finally:
        await transport.aclose()
    if reply.status == 404:
        return False
    if reply.status != 200:
        failure = failure_of_response(reply.status, reply.headers, body, model="", now=time.time())
        if failure.code == ErrorCode.API_KEY_INVALID:
            who = "Anthropic" if address == DEFAULT_BASE_URL else address
            message = f"{who} rejected this key. Check that you copied all of it; nothing was saved."
            raise CellwrightError(failure.code, message)
        raise _not_kept(failure.code, transport.redact(failure.message))
    return True


def _not_kept(code: ErrorCode, why: str) -> CellwrightError:
    return CellwrightError(code, f"{why} Nothing was saved.")


def overruled_by(environ: Mapping[str, str], helper: str | None) -> str:
    """Name what goes before a key that is kept; empty where the key counts."""
    if kept_source(environ) is None:
        return source_of_credential(environ) or ""
    return "apiKeyHelper" if helper is not None else ""


def key_source(settings: Settings, environment: Mapping[str, str]) -> str:
    """Name the source of the key; never a part of the key."""
    if settings.api_key_helper is not None and source_of_credential(environment) is None:
        origin = settings.origin("apiKeyHelper")
        return f"apiKeyHelper ({origin.label})" if origin else "apiKeyHelper"
    if (place := kept_source(environment, own_credentials=settings.own_credentials)) is not None:
        return f"`cellwright auth login` ({place})"
    source = source_of_credential(environment)
    if source is None:
        return NO_KEY
    origin = settings.origin(f"env.{source}")
    return f"{source} ({origin.label})" if origin else source
