"""Programs whose work is to make protected files: they ask at once, since the sandbox would discard what they make."""

from __future__ import annotations

from collections.abc import Sequence

from cellwright.permissions.shell.read_only.git import GLOBAL_WITH_VALUE

_INSTALLS = frozenset({"i", "install", "ci", "add", "update", "upgrade", "up", "link", "dedupe", "rebuild"})
_GIT = frozenset({"clone", "init", "submodule", "config"})
_REMOTE = frozenset({"add", "remove", "rm", "rename", "set-url", "set-branches", "set-head"})


def made_protected(program: str, arguments: Sequence[str]) -> str:
    """The protected name that `program` makes or changes with `arguments`; "" if none is known."""
    valued = GLOBAL_WITH_VALUE if program == "git" else frozenset[str]()
    words = [
        word
        for before, word in zip(("", *arguments), arguments, strict=False)
        if word and not word.startswith("-") and before not in valued
    ]
    first = words[0] if words else ""
    match program:
        case "git" if first in _GIT or (first == "remote" and words[1:2] and words[1] in _REMOTE):
            return ".git"
        case "npm" | "pnpm" | "bun" if first in _INSTALLS:
            return "node_modules/.bin"
        case "yarn" if first in _INSTALLS | {""} and "--version" not in arguments:
            return "node_modules/.bin"
        case "virtualenv":
            return "pyvenv.cfg"
        case "uv" if first in ("venv", "sync"):
            return "pyvenv.cfg"
        case _ if program.startswith("python") and list(arguments[:2]) == ["-m", "venv"]:
            return "pyvenv.cfg"
        case _:
            return ""
