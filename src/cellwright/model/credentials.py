"""The credential that the environment gives: the variables that hold one or lead to one, and the transport that it chooses.

Order and names are the SDK's and Claude Code's: a platform that is switched on, then a key or token, then what the
SDK finds by itself (a named profile, a workload's identity, the profile on disk). Nothing is read but the environment
and whether the profile's file exists.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.transports.sdk_transport import SdkTransport
from cellwright.model.transports.transport import DEFAULT_BASE_URL, KeyTransport, Transport
from cellwright.text import lazy_pattern

KEY_VARIABLES = ("ANTHROPIC_API_KEY", "CLAUDE_API_KEY", "ANTHROPIC_AUTH_TOKEN")
"""The variables that hold a key or token themselves; the first of them counts."""

_LEADS_TO_A_MODEL = lazy_pattern(
    r"ANTHROPIC_(?!.*_MODEL$|MODEL$).* | CLAUDE_API_KEY | CLAUDE_CODE_USE_.* | CLAUDE_CODE_OAUTH_TOKEN "
    r"| AWS_BEARER_TOKEN_BEDROCK",
    re.VERBOSE,
)
"""General credentials of AWS or Google are none of them: notebooks read data with them, and without the switches no request
for a message goes there."""

_SWITCHES = {
    "CLAUDE_CODE_USE_BEDROCK": "bedrock",
    "CLAUDE_CODE_USE_MANTLE": "mantle",
    "CLAUDE_CODE_USE_VERTEX": "vertex",
    "CLAUDE_CODE_USE_FOUNDRY": "foundry",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": "aws",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": "google_cloud",
}

_ADDRESSES = {
    "": "ANTHROPIC_BASE_URL",
    "bedrock": "ANTHROPIC_BEDROCK_BASE_URL",
    "vertex": "ANTHROPIC_VERTEX_BASE_URL",
    "foundry": "ANTHROPIC_FOUNDRY_BASE_URL",
}

_ON = ("1", "true", "yes", "on")

_HOW_TO_GIVE_A_KEY = """\
Claude needs a key. Three ways to continue:
  Enter a key   `cellwright auth login` in a terminal, `%claude login` in a cell, or the panel's field.
                Or set ANTHROPIC_API_KEY before the kernel starts. Keys: https://platform.claude.com/settings/keys
  Use a cloud   Set CLAUDE_CODE_USE_BEDROCK=1, CLAUDE_CODE_USE_VERTEX=1 or CLAUDE_CODE_USE_FOUNDRY=1.
                A gateway or a local server: ANTHROPIC_BASE_URL with ANTHROPIC_AUTH_TOKEN.
                Also: a sign-in of `ant auth login`, or a Claude subscription with `--provider claude-code`.
  Try the demo  `cellwright demo` in a terminal, `%claude demo` in a notebook: a scripted model, no key, no network."""


def leads_to_a_model(name: str) -> bool:
    """Return whether variable `name` says which account or address requests use; not those that name models."""
    return _LEADS_TO_A_MODEL.fullmatch(name) is not None


def variable_with_key(environ: Mapping[str, str]) -> str | None:
    """The name of the variable that holds the key or token; None where there is none."""
    return next((name for name in KEY_VARIABLES if environ.get(name, "").strip()), None)


def key_in(environ: Mapping[str, str]) -> str:
    """The key or token that `environ` holds; empty where there is none."""
    name = variable_with_key(environ)
    return environ[name].strip() if name is not None else ""


def chosen_platform(environ: Mapping[str, str]) -> str:
    """Return the cloud's platform that requests go to ("bedrock"); "" for Anthropic's own, or what stands in for it."""
    return next((name for switch, name in _SWITCHES.items() if environ.get(switch, "").strip().lower() in _ON), "")


def is_own_platform(environ: Mapping[str, str]) -> bool:
    """Return whether requests go to Anthropic, or what stands in for it, and to no cloud's own platform."""
    return not chosen_platform(environ)


SCRIPTED = "CELLWRIGHT_SCRIPTED_MODEL"
"""Set beside the address of a model whose answers are written down, so that every place can say so."""


def is_scripted(environ: Mapping[str, str]) -> bool:
    """Return whether the model that answers is the demo's: no model at all, but a script."""
    return environ.get(SCRIPTED, "").strip().lower() in _ON


def choose_transport(environ: Mapping[str, str]) -> Transport:
    """The transport for the credential in `environ`. Raises `CellwrightError` API_KEY_MISSING when there is none."""
    if platform := chosen_platform(environ):
        return SdkTransport(platform, environ)
    custom_headers = _custom_headers(environ.get("ANTHROPIC_CUSTOM_HEADERS", ""))
    token = key_in(environ) or None
    if token is not None or {"authorization", "x-api-key"} & {name.lower() for name in custom_headers}:
        base_url = environ.get("ANTHROPIC_BASE_URL", "").strip() or DEFAULT_BASE_URL
        return KeyTransport(token=token, base_url=base_url, custom_headers=custom_headers)
    if _sdk_finds_one(environ):
        return SdkTransport("anthropic", environ)
    raise CellwrightError(ErrorCode.API_KEY_MISSING, _HOW_TO_GIVE_A_KEY)


def server_address(environ: Mapping[str, str]) -> str:
    """The host that requests go to, as far as `environ` names it; "" for a cloud that the SDK finds the address of."""
    platform = chosen_platform(environ)
    named = environ.get(_ADDRESSES.get(platform, ""), "").strip()
    try:
        return urlsplit(named or ("" if platform else DEFAULT_BASE_URL)).hostname or ""
    except ValueError:
        return ""


def source_of_credential(environ: Mapping[str, str]) -> str | None:
    """The name of what gives the credential: a variable, or a sign-in of the SDK's; None where nothing does."""
    for switch in _SWITCHES:
        if environ.get(switch, "").strip().lower() in _ON:
            return switch
    if (name := variable_with_key(environ)) is not None:
        return name
    headers = _custom_headers(environ.get("ANTHROPIC_CUSTOM_HEADERS", ""))
    if {"authorization", "x-api-key"} & {name.lower() for name in headers}:
        return "ANTHROPIC_CUSTOM_HEADERS"
    return "the SDK's sign-in" if _sdk_finds_one(environ) else None


def _custom_headers(lines: str) -> dict[str, str]:
    """`Name: value`, one a line; lines without a colon are passed over, as the SDK does."""
    pairs = (line.partition(":") for line in lines.split("\n"))
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def _sdk_finds_one(environ: Mapping[str, str]) -> bool:
    if environ.get("ANTHROPIC_PROFILE"):
        return True
    identity = environ.get("ANTHROPIC_IDENTITY_TOKEN") or environ.get("ANTHROPIC_IDENTITY_TOKEN_FILE")
    if identity and environ.get("ANTHROPIC_FEDERATION_RULE_ID") and environ.get("ANTHROPIC_ORGANIZATION_ID"):
        return True
    folder = _sdk_folder(environ)
    return (folder / "active_config").is_file() or (folder / "configs" / "default.json").is_file()


def _sdk_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder where the SDK keeps profiles."""
    if environ.get("ANTHROPIC_CONFIG_DIR"):
        return Path(environ["ANTHROPIC_CONFIG_DIR"])
    if sys.platform == "win32":
        return Path(environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "Anthropic"
    return Path(environ.get("HOME") or Path.home()) / ".config" / "anthropic"
