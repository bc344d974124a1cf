"""`cellwright auth`: which credential is in force and where it comes from; a key entered once, and taken away again."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import sys
from collections.abc import Callable, Sequence

from cellwright.config.credentials.entered_key import KEYS_PAGE, NO_KEY, KeptKey, key_source, place_words, try_and_keep
from cellwright.config.credentials.stored_key import address_of, forget, note_path
from cellwright.config.settings.settings_files import start_folder
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.credentials import chosen_platform
from cellwright.terminal.exit_codes import ExitCode
from cellwright.terminal.views.streams import print_line
from cellwright.text import visible_line

OTHER_WAYS = f"""\
Claude needs a key: enter it below. Get one: {KEYS_PAGE}
Or press Enter and choose another way:
  A cloud         set CLAUDE_CODE_USE_BEDROCK=1, CLAUDE_CODE_USE_VERTEX=1 or CLAUDE_CODE_USE_FOUNDRY=1
  A gateway       set ANTHROPIC_BASE_URL and ANTHROPIC_AUTH_TOKEN
  A subscription  `cellwright --provider claude-code`
  The demo        `cellwright demo`: a scripted model, no key, no network
"""


def auth(argv: Sequence[str], *, as_claude: bool = False) -> int:
    """Do what `argv` says. Raises `CellwrightError` for a key that is not taken, and where there is none to enter.

    `as_claude`: called `claude`, whose status is JSON in Claude Code's shape unless `--text` is given.
    """
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
    parser.add_argument("--text", action="store_true", help="a text, for people")
    options = parser.parse_args(argv)
    if as_claude and options.command == "status" and not options.text:
        return _status_as_claude()
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


def _status_as_claude() -> int:
    """Print what Claude Code says of its sign-in, as programs read it: whether there is a credential, and of which kind."""
    in_force = _in_force()
    settings, environment = in_force.settings, in_force.environment
    source = key_source(settings, environment)
    platform = chosen_platform(environment)
    method = "none" if source == NO_KEY else "third_party" if platform else "api_key"
    if method == "api_key" and source.startswith("ANTHROPIC_AUTH_TOKEN"):
        method = "oauth_token"
    status: dict[str, object] = {
        "loggedIn": source != NO_KEY,
        "authMethod": method,
        "apiProvider": platform or "firstParty",
    }
    if method == "api_key":
        status["apiKeySource"] = source
    print(json.dumps(status, indent=2))
    return ExitCode.OK if source != NO_KEY else 1


def ask_for_key() -> bool:
    """Ask for a key until one is taken and kept; False if the user enters none, or the administrator allows none."""
    in_force = _in_force()
    while in_force.settings.own_credentials:
        text = _typed(address_of(in_force.environment), "hidden")
        if not text.strip():
            return False
        try:
            print_line(f"{_kept(text, in_force).sentence}\n", sys.stdout)
        except CellwrightError as error:
            if error.code not in (ErrorCode.API_KEY_INVALID, ErrorCode.INVALID_PARAMETERS):
                raise
            print_line(error.message, sys.stderr)
        else:
            return True
    return False


def _kept(text: str, in_force: SettingsInForce) -> KeptKey:
    settings = in_force.settings
    return asyncio.run(
        try_and_keep(
            text, in_force.environment, helper=settings.api_key_helper, own_credentials=settings.own_credentials
        )
    )


def _login(as_json: bool) -> int:
    in_force = _in_force()
    kept = _kept(_typed(address_of(in_force.environment)) if in_force.settings.own_credentials else "", in_force)
    if as_json:
        print(json.dumps({"kept_in": kept.place, "base_url": kept.address}))
        return ExitCode.OK
    print_line(kept.sentence, sys.stdout)
    if kept.overruled_by:
        print_line(f"But {kept.overruled_by} takes precedence here: see `cellwright auth status`.", sys.stderr)
    return ExitCode.OK


def _typed(address: str, about: str = "it is not shown") -> str:
    """Read the key for `address`: what the user types, unseen, or a pipe gives."""
    try:
        # the settings may say another address than the user thinks: it is tried there at once
        prompt = f"API key for {visible_line(address, 200)} ({about}): "
        return getpass.getpass(prompt) if sys.stdin.isatty() else sys.stdin.readline()
    except EOFError:
        return ""


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
    print(f"The key is gone from {place_words(place)}." if place else "No key was kept.")
    if left != NO_KEY:
        print(f"Still in force here: {left}.")
    return ExitCode.OK
