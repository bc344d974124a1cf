"""What a child process gets of the environment: the user's own, less secrets and less what would run code in it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

_SECRET = re.compile(
    r"""
    ^ANTHROPIC_ | ^AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|BEARER_TOKEN) | ^JPY_ | ^JUPYTER(HUB|LAB|_SERVER)?_\w*TOKEN
    | ^GOOGLE_APPLICATION_CREDENTIALS$ | ^CELLWRIGHT_ | ^(GITHUB|GH|GITLAB|HF|NPM|PYPI|SLACK)_(PAT|AUTH)$
    | (^|_)(API_?KEYS?|TOKENS?|SECRETS?|SECRET_?KEY|PASSWORDS?|PASSWD|PWD_HASH|PASSPHRASE|CREDENTIALS?|PRIVATE_?KEY|ACCESS_?KEY)(_|$)
    | (^|_)AUTH(ORIZATION)?(_|$) | _DSN$ | ^DATABASE_URL$ | _CONNECTION_STRING$
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NO_SECRET = frozenset({"SSH_AUTH_SOCK"})
"""A socket's path; what is behind it decides for itself."""

_INJECTION = re.compile(
    r"^(BASH_ENV|ENV|LD_PRELOAD|LD_AUDIT|DYLD_INSERT_LIBRARIES|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|BASH_FUNC_.*)$"
)

_FIXED = {"CLAUDECODE": "1", "PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0"}


def is_secret(name: str) -> bool:
    """Whether an environment variable of this name is withheld from children."""
    return name not in _NO_SECRET and _SECRET.search(name) is not None


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: no secrets, nothing that runs code at start, this interpreter's programs first."""
    kept = {name: value for name, value in environ.items() if not is_secret(name) and not _INJECTION.match(name)}
    programs = str(Path(sys.executable).parent)
    path = [part for part in kept.get("PATH", os.defpath).split(os.pathsep) if part != programs]
    return {**kept, **_FIXED, "PATH": os.pathsep.join([programs, *path])}
