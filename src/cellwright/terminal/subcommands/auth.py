"""`cellwright auth`: which credential is in force and where it comes from; a key entered once, and taken away again."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from cellwright.commands.status import NO_KEY, key_source
from cellwright.config.kept_key import Place, address_of, forget, keep, kept_source, note_path
from cellwright.config.settings.read import start_folder
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.retry import RequestFailed, failure_of_response
from cellwright.model.transport import KeyTransport
from cellwright.terminal.exit_codes import ExitCode
from cellwright.text import visible_line

TEST_PATH = "/v1/models?limit=1"
TEST_SECONDS = 30.0


def auth(argv: Sequence[str]) -> int:
    """Do what `argv` says. Raises `CellwrightError` for a key that is not taken, and where there is none to enter."""
    parser = argparse.ArgumentParser(
        prog="cellwright auth",
        description="status: which key or platform is in force here and where it comes from; the key itself is not shown, "
        "and nothing is sent (`cellwright doctor` asks whether the API takes it). The exit code is 3 when there is none. "
        "login: enter a key, which is tried and kept in the system's keyring, or in a file for you alone. logout: take it "
        "away again.",
        allow_abbrev=False,
    )
    parser.add_argument("command", nargs="?", choices=("status", "login", "logout"), default="status")
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    options = parser.parse_args(argv)
    do: dict[str, Callable[[bool], int]] = {"status": _status, "login": _login, "logout": _logout}
    return do[options.command](options.json)


def _in_force() -> SettingsInForce:
    return SettingsInForce(start_folder(os.environ), os.environ)


def _status(as_json: bool) -> int:
    in_force = _in_force()
    settings, environment = in_force.settings, in_force.environment
    source = key_source(settings, environment)
    address = environment.get("ANTHROPIC_BASE_URL") or None
    if as_json:
        print(json.dumps({"source": None if source == NO_KEY else source, "base_url": address}))
    else:
        print(f"key      {source}\nsent to  {address or 'the address of the API or platform'}")
    return ExitCode.CREDENTIAL if source == NO_KEY else ExitCode.OK


def _login(as_json: bool) -> int:
    in_force = _in_force()
    settings, environment = in_force.settings, in_force.environment
    if not settings.own_credentials:
        message = "The administrator's settings allow no keys of your own. Nothing was kept."
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)
    address = address_of(environment)
    key = _entered_key(address)
    lists_models = asyncio.run(_tested(key, address))
    try:
        place = keep(key, address)
    except OSError as error:
        message = f"The key could not be kept in {note_path()} ({error.strerror}). Nothing was changed."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from None
    if as_json:
        print(json.dumps({"kept_in": place, "base_url": address}))
        return ExitCode.OK
    tried = f"{address} takes the key" if lists_models else f"{address} lists no models, so the key is not tried"
    print(f"{tried}. It is kept in {_words(place)}, and sent to no other address.")
    _say_what_goes_before(environment, settings.api_key_helper)
    return ExitCode.OK


def _entered_key(address: str) -> str:
    """The key for `address` that the user types, unseen, or that a pipe gives.

    Raises `CellwrightError` INVALID_PARAMETERS for none.
    """
    try:
        # the settings may say another address than the user thinks: it is tried there at once
        prompt = f"API key for {visible_line(address, 200)} (it is not shown): "
        text = getpass.getpass(prompt) if sys.stdin.isatty() else sys.stdin.readline()
    except EOFError:
        text = ""
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        message = "That is no key: a key is one word of letters, digits and signs. Nothing was sent or kept."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return key


async def _tested(key: str, address: str) -> bool:
    """Try the key with a request that costs nothing; False where the address has none such. Raises `CellwrightError`."""
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
        raise _not_kept(failure.code, transport.redact(failure.message))
    return True


def _not_kept(code: ErrorCode, why: str) -> CellwrightError:
    return CellwrightError(code, f"{why} The key was not kept.")


def _say_what_goes_before(environment: Mapping[str, str], helper: str | None) -> None:
    if helper is not None or kept_source(environment) is None:
        source = "apiKeyHelper" if helper is not None else "the environment"
        print(f"But {source} goes before it here: `cellwright auth status`.", file=sys.stderr)


def _logout(as_json: bool) -> int:
    try:
        place = forget()
    except OSError as error:
        message = f"The key could not be taken out of {note_path()} ({error.strerror})."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from None
    in_force = _in_force()
    left = key_source(in_force.settings, in_force.environment)
    if as_json:
        print(json.dumps({"removed_from": place, "source": None if left == NO_KEY else left}))
        return ExitCode.OK
    print(f"The key is gone from {_words(place)}." if place else "No key was kept.")
    if left != NO_KEY:
        print(f"Still in force here: {left}.")
    return ExitCode.OK


def _words(place: Place) -> str:
    return "the system's keyring" if place == "keyring" else f"{note_path()}, which only you can read"
