"""Files through which a write becomes code that runs later, or rights: writing them always takes a human.

Claude Code's list, Jupyter's and Python's own start-up files, and what a home folder used as project holds.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH206

from __future__ import annotations

import functools
import os
import re
import sys
from fnmatch import translate
from pathlib import Path

from cellwright.permissions.paths import folded

PROTECTED_FOLDERS = (
    *(".git", ".config/git", ".vscode", ".idea", ".husky", ".cargo", ".devcontainer", ".yarn", ".mvn", ".claude"),
    *(".ipython", ".jupyter", ".local/share/jupyter", "library/jupyter", "site-packages", "dist-packages"),
    *(".venv/bin", "venv/bin", ".venv/scripts", "venv/scripts"),
    *(".ssh", ".gnupg", ".aws", ".kube", ".docker", ".local/bin", ".local/share/cellwright"),
    *(".config/autostart", ".config/systemd", ".config/fish", ".config/pip", "library/launchagents"),
    "library/application support/cellwright",
)
ALLOWED_IN_PROTECTED = {".claude": "worktrees"}

PROTECTED_FILES = (
    *(".gitconfig", ".gitmodules", ".profile", ".bashrc", ".bash_*", ".zshrc", ".zshenv", ".zprofile", ".zlogin"),
    *(".zlogout", ".envrc", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnp.cjs", ".pnp.loader.mjs", ".pnpmfile.cjs"),
    *("bunfig.toml", ".bunfig.toml", ".bazelrc", ".bazelversion", ".bazeliskrc", ".pre-commit-config.yaml"),
    *("lefthook*.yml", "lefthook*.yaml", ".lefthook*.yml", ".lefthook*.yaml", "gradle-wrapper.properties"),
    *(
        "maven-wrapper.properties",
        ".devcontainer.json",
        ".ripgreprc",
        "pyrightconfig.json",
        ".mcp.json",
        ".claude.json",
    ),
    *("ipython_config.py", "ipython_*_config.py", "jupyter_config.py", "jupyter_config.json", "jupyter_*_config.py"),
    *("jupyter_*_config.json", "sitecustomize.py", "usercustomize.py", "*.pth", "kernel.json", "overrides.json"),
    *(".netrc", ".pypirc", ".condarc", ".inputrc", ".vimrc", ".tmux.conf", ".rprofile", ".pam_environment"),
    *(".xprofile", ".xinitrc", ".xsessionrc"),
)
STARTUP_SCRIPT = re.compile(r"\.i?py\Z")

PROGRAMS = str(Path(sys.prefix).resolve() / ("Scripts" if os.name == "nt" else "bin"))
"""Where this interpreter's programs are: they come first on a command's PATH, so what is put there runs as `ls`."""

_FOLDERS = tuple(tuple(folder.split("/")) for folder in PROTECTED_FOLDERS)
_BY_FIRST_NAME = {first: [folder for folder in _FOLDERS if folder[0] == first] for first, *_ in _FOLDERS}
_FILES = re.compile("|".join(translate(name) for name in PROTECTED_FILES))
_SHORT_NAME = re.compile(r"([a-z0-9_-]{1,6})~\d")
_BY_SHORT_NAME = {folder[0].lstrip(".")[:6]: folder[0] for folder in _FOLDERS if folder[0] not in (".config", ".local")}


def protected_part(place: str) -> str | None:
    """The part of the absolute path `place` that makes it protected, or None. Spelling variants count as the same."""
    names = [_comparable(name) for name in place.split(os.sep)]
    for start, name in enumerate(names):
        for folder in _BY_FIRST_NAME.get(name, ()):
            if tuple(names[start : start + len(folder)]) == folder:
                below = names[start + len(folder) : start + len(folder) + 1]
                if below != [ALLOWED_IN_PROTECTED.get("/".join(folder))]:
                    return "/".join(folder)
    programs = _programs()
    if names[: len(programs)] == programs and len(names) > len(programs):
        return PROGRAMS
    if _FILES.match(names[-1]):
        return names[-1]
    if len(names) > 1 and names[-2] == "startup" and STARTUP_SCRIPT.search(names[-1]):
        return f"startup/{names[-1]}"
    return None


@functools.cache
def _programs() -> list[str]:
    return [_comparable(name) for name in PROGRAMS.split(os.sep)]


def _comparable(name: str) -> str:
    if name.isalnum():
        return name.lower()
    # NTFS: `.git::$INDEX_ALLOCATION` and `.git. ` are `.git`, and so is its short name `GIT~1`
    name = folded(name.partition(":")[0].rstrip(". ") or name)
    if short := _SHORT_NAME.fullmatch(name):
        return _BY_SHORT_NAME.get(short[1], name)
    return name
