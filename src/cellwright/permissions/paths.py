"""Paths: every place that one leads to through its symlinks, those inside a folder, those that are protected, and secrets.

Protected are files through which a write becomes code that runs later, or rights: writing them always takes a human.
They are Claude Code's list, what Jupyter, Python, editors, debuggers and other agents load as they start, what runs in
pipelines, and what a home folder used as project holds. Source files, tests and build files are not: these run because
somebody runs the project.

The usual places of secrets in a home folder are hidden from what runs confined, also where a session works there.
"""

from __future__ import annotations

import functools
import ntpath
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from fnmatch import translate
from pathlib import Path

from cellwright.text import lazy_pattern

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH115, PTH118, PTH120, PTH206

MAX_LENGTH = 4096 if os.name == "posix" else 32_768
"""Characters; the operating system takes no longer path, and looking through one would take time."""

_DEVICE = lazy_pattern(r"(?i)(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?")
_WINDOWS_SHORT_NAME = lazy_pattern(r"~\d")

KEYS = (
    *(
        ".ssh",
        ".gnupg",
        ".aws",
        ".azure",
        ".kube",
        ".docker",
        ".config/gcloud",
        ".config/gh",
        ".config/hub",
        ".config/op",
    ),
    *(".netrc", "_netrc", ".authinfo", ".authinfo.gpg", ".pgpass", ".my.cnf", ".git-credentials"),
    *(
        ".gitconfig",
        ".config/git/config",
        ".config/git/credentials",
        ".gitcookies",
        ".pypirc",
        ".npmrc",
        ".yarnrc.yml",
        ".gem/credentials",
        ".cargo/credentials",
    ),
    *(".cargo/credentials.toml", ".config/containers/auth.json", ".terraform.d/credentials.tfrc.json", ".vault-token"),
    *(
        ".config/doctl",
        ".config/hcloud",
        ".config/rclone",
        ".s3cfg",
        ".boto",
        ".databrickscfg",
        ".snowflake",
        ".kaggle",
    ),
    *(".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface", ".wandb", ".config/sops"),
    *(".config/age", ".m2/settings.xml", ".gradle/gradle.properties", ".config/pip/pip.conf", ".pip/pip.conf"),
)
"""Keys and tokens of services."""

PASSWORDS = (
    *(".password-store", ".local/share/password-store", ".local/share/keyrings", ".local/share/kwalletd"),
    *(".config/keybase", ".config/1Password", ".config/Bitwarden", ".config/Bitwarden CLI"),
    *(".electrum", ".bitcoin", ".ethereum", "Library/Keychains"),
)

OF_AGENTS = (
    *(".claude/.credentials.json", ".claude.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".config/anthropic"),
    *(".local/share/cellwright", "Library/Application Support/cellwright"),
)

OF_JUPYTER = (
    *(".jupyter", ".local/share/jupyter/runtime", "Library/Jupyter/runtime", ".ipython/profile_default/security"),
)
"""The keys of running kernels, with which code runs outside, and of the server."""

BROWSERS_AND_MAIL = (
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".config/Signal"),
    *("snap/firefox", "snap/chromium", ".var/app", "Library/Cookies", "Library/Mail", "Library/Messages"),
    *("Library/Safari", "Library/Application Support/Google", "Library/Application Support/Firefox"),
    *("Library/Application Support/BraveSoftware", "Library/Application Support/Microsoft Edge"),
    *("Library/Group Containers", "Library/Containers"),
)

TYPED = (
    *(".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history", ".sqlite_history"),
    ".ipython/profile_default/history.sqlite",
)
"""Histories of what was typed."""

SECRET_PLACES = (*KEYS, *PASSWORDS, *OF_AGENTS, *OF_JUPYTER, *BROWSERS_AND_MAIL, *TYPED)


class PathProblem(Exception):
    """A path that names no place: what is wrong with it, as the end of a sentence."""


class RefusedPath(PathProblem):
    """A path of Windows that may name a place, but not plainly the one that is written."""


def places(path: str, cwd: str | Path) -> tuple[str, ...]:
    """Every place `path` names on its way, absolute and normalised: as written, then after each symlink in it.

    The last one is where it really leads; parts that do not exist yet are kept as written. A path with `~` also names
    the home folder's file, whether or not the tool that gets it expands it. Raises PathProblem.
    """
    if "\0" in path:
        raise PathProblem("contains a NUL byte")
    if len(path) > MAX_LENGTH:
        raise PathProblem("is longer than any path can be")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise PathProblem("contains half a character") from error
    spellings = [os.path.join(cwd, path)]
    if path.startswith("~"):
        spellings.append(os.path.join(cwd, os.path.expanduser(path)))
    found: dict[str, None] = {}
    for spelling in spellings:
        found.update(dict.fromkeys(_hops(spelling, str(cwd))))
    return tuple(found)


def _hops(path: str, cwd: str) -> Iterator[str]:
    # as many links as Linux follows before it calls a path a loop
    for _ in range(40 + 1):
        if sys.platform == "win32":
            if why := why_refused_on_windows(path, cwd):
                raise RefusedPath(why)
        yield normalised(path)
        followed = _follow_first_link(path)
        if followed is None:
            return
        target, rest = followed
        if os.pardir in rest:
            # `link/..` leads through a folder that the whole path no longer shows
            yield normalised(target)
        path = os.path.join(target, *rest)
    raise PathProblem("leads through too many symlinks")


def _follow_first_link(path: str) -> tuple[str, list[str]] | None:
    """Return the target of the first symlink in `path`, and the parts behind it."""
    # component by component, because `link/..` is the parent of the link's target and not the folder of the link
    drive, path = os.path.splitdrive(path)  # a drive of Windows may be a share of another machine
    parts = path.split(os.sep)
    here = drive + parts[0] + os.sep
    for index, part in enumerate(parts[1:], start=1):
        if part == os.pardir:
            here = os.path.dirname(here)
        elif part not in ("", os.curdir):
            # `os.path.join` looks for what a single name cannot hold, and takes half of the time
            there = f"{here}{part}" if here.endswith(os.sep) else f"{here}{os.sep}{part}"
            target = _link_target(there)
            if target is not None:
                return os.path.join(here, target), parts[index + 1 :]
            here = there
    return None


def _link_target(path: str) -> str | None:
    try:
        target = os.readlink(path)
    except OSError:  # no link, not there, or not ours to see: nothing to follow
        return None
    if sys.platform == "win32":
        return without_prefix(target)
    return target


def normalised(path: str) -> str:
    """`path` without `.`, `..`, doubled and trailing separators."""
    path = os.path.normpath(path)
    return path[1:] if path.startswith("//") else path


def inside(
    place: str, folders: Iterable[str], *, separator: str = os.sep, folds: bool = sys.platform == "win32"
) -> bool:
    """Return whether the normalised `place` is one of `folders` or below one, by whole path components.

    `folds`: case is no difference, as on Windows. On macOS it is one here: what differs asks.
    """
    if folds:
        place, folders = place.lower(), map(str.lower, folders)
    for folder in folders:
        if place.startswith(folder) and (
            place[len(folder) : len(folder) + 1] in ("", separator) or folder.endswith(separator)
        ):
            return True
    return False


def folder_spellings(folders: Iterable[str | Path], cwd: str | Path) -> tuple[str, ...]:
    """Each folder in every spelling that leads to it through its own symlinks."""
    return tuple(dict.fromkeys(place for folder in folders for place in places(str(folder), cwd)))


def spelled_from_home(folders: tuple[str, ...]) -> tuple[str, ...]:
    """`folders`, and how those in the home folder are written from there where links lead to it.

    The system says where such a folder really is; people, and `~`, say it the other way.
    """
    try:
        *links, home = places(os.path.expanduser("~"), "/")
    except PathProblem:  # a home that names no place holds none of them
        return folders
    if home == "/":
        return folders
    below = [folder[len(home) :] for folder in folders if inside(folder, [home])]
    return tuple(dict.fromkeys((*folders, *(link + rest for link in links for rest in below))))


_OF_A_PROCESS = lazy_pattern(r"/proc/(?:self|thread-self|\d+|[^/]*[*?\[][^/]*)(?:/|\Z)|/dev/fd(?:/|\Z)")
_OF_THE_MACHINE = frozenset({"/proc/kcore", "/proc/kmem", "/dev/mem", "/dev/kmem", "/dev/port"})


def shows_process(place: str, *, below: bool = False) -> bool:
    """Return whether the normalised `place` shows a process: its variables, memory, open files or folders.

    They hold what no file of the session does: the keys in the kernel's environment above all. A wildcard counts for
    all that it may match. `below`: whether all that is in the folder `place` is used as well.
    """
    if below and place in ("/", "/proc", "/dev"):
        return True
    return _OF_A_PROCESS.match(place) is not None or place in _OF_THE_MACHINE


@functools.lru_cache(maxsize=4096)  # each rule of a decision folds the same paths
def folded(text: str) -> str:
    """One spelling for all that some file system takes for the same name.

    Case (macOS, Windows), Unicode composition (macOS), and characters that HFS+ ignores.
    """
    if text.isascii():
        return text.lower()
    kept = "".join(character for character in text if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", kept).casefold())


PROTECTED_FOLDERS = (
    # version control, and what it runs; `.git` as a whole: `git_data.py` says what of it a commit may change
    *(".git", ".config/git", ".hg/hgrc", ".jj/repo", ".husky", ".lefthook"),
    # editors
    *(".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".vim", ".emacs.d", ".config/nvim", ".config/vim"),
    *(".config/emacs", ".config/zed", ".config/code", ".config/vscodium"),
    # other agents: their settings name programs and grant rights
    *(".claude", ".cursor", ".gemini", ".codex", ".continue", ".windsurf", ".roo", ".opencode", ".amazonq", ".kiro"),
    *(
        ".qwen",
        ".kilocode",
        ".copilot",
        ".cline",
        ".trae",
        ".junie",
        ".augment",
        ".crush",
        ".config/opencode",
        ".config/goose",
        ".config/github-copilot",
    ),
    # Jupyter's and IPython's configuration, wherever they look for it
    *(".ipython", ".jupyter", ".local/share/jupyter", "library/jupyter", "share/jupyter", "etc/jupyter", "etc/ipython"),
    *("labconfig", "nbconfig", "nbextensions", "custom/custom.js", "custom/custom.css", ".config/ipython"),
    # what Python, R, Julia and others load as they start, and programs that stand on PATH
    *("site-packages", "dist-packages", ".venv/bin", "venv/bin", ".venv/scripts", "venv/scripts", "etc/conda"),
    *("node_modules/.bin", ".local/bin", "renv/activate.r", ".julia/config", ".config/octave"),
    # package managers, build tools, runtimes
    *(".cargo", ".yarn", ".mvn", ".m2", ".gradle/init.d", ".bundle", ".config/pip", ".pip", ".mise", ".config/mise"),
    *(".config/direnv", ".config/gh", ".terraform.d"),
    # what runs in a project's pipelines, with their secrets
    *(".github/workflows", ".circleci", ".buildkite", ".woodpecker"),
    # keys and accounts, and what a desktop or a login starts
    *(".ssh", ".gnupg", ".aws", ".kube", ".docker", ".local/share/cellwright"),
    *(".config/autostart", ".config/systemd", ".config/environment.d", ".local/share/applications"),
    *(".config/fish", ".config/nushell", ".config/powershell", ".config/tmux", ".config/gdb", ".oh-my-zsh"),
    *("library/launchagents", "library/application support/cellwright"),
)
ALLOWED_IN_PROTECTED = {".claude": "worktrees"}

PROTECTED_FILES = (
    # shells and terminals
    *(".profile", ".bashrc", ".bash_*", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc"),
    *(".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".tmux.conf", ".screenrc", ".pam_environment"),
    *(".xprofile", ".xinitrc", ".xsessionrc", ".xsession", ".lessfilter", ".lesskey", ".mailcap"),
    # what follows from where one is
    *(".envrc", ".direnvrc", ".tool-versions", "mise.toml", ".mise.toml", "mise.*.toml", ".mise.*.toml"),
    # version control and its hooks
    *(".gitconfig", ".gitmodules", ".hgrc", ".pre-commit-config.yaml", "lefthook*.yml", "lefthook*.yaml"),
    *(".lefthook*.yml", ".lefthook*.yaml", "lefthook*.toml", ".overcommit.yml"),
    # pipelines
    *(".gitlab-ci.yml", ".travis.yml", ".drone.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "jenkinsfile"),
    # package managers and build tools
    *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pnp.cjs", ".pnp.loader.mjs", ".pnpmfile.cjs", "bunfig.toml"),
    *(".bunfig.toml", ".bazelrc", ".bazelversion", ".bazeliskrc", "gradle-wrapper.properties", "init.gradle"),
    *("maven-wrapper.properties", ".pypirc", ".condarc", "pip.conf", ".gemrc", ".terraformrc"),
    # editors and other agents
    *(".devcontainer.json", "*.code-workspace", ".ripgreprc", "pyrightconfig.json", ".mcp.json", ".claude.json"),
    *(".aider.conf.yml", "opencode.json", "opencode.jsonc", ".dir-locals.el", ".dir-locals-2.el", ".emacs"),
    *(".emacs.el", ".vimrc", "_vimrc", ".gvimrc", ".exrc", "_exrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".nanorc"),
    # debuggers and interactive programs
    *(".pdbrc", ".pdbrc.py", ".gdbinit", ".gdbearlyinit", ".lldbinit", ".lldbinit-*", ".psqlrc", ".sqliterc"),
    *(".duckdbrc", ".my.cnf", ".irbrc", ".pryrc", ".octaverc", ".ghci", ".ocamlinit", ".sbclrc", ".perldb"),
    *(".rprofile", "rprofile.site", ".renviron", "renviron.site", ".juliarc.jl", "startup.m", ".pythonrc"),
    *(".pythonrc.py", ".pythonstartup", ".ackrc", ".curlrc", ".wgetrc"),
    # Jupyter, IPython and Python
    *("ipython_config.py", "ipython_config.json", "ipython_*_config.py", "ipython_*_config.json"),
    *("jupyter_config.py", "jupyter_config.json", "jupyter_*_config.py", "jupyter_*_config.json", "kernel.json"),
    *("overrides.json", "sitecustomize.py", "usercustomize.py", "*.pth", "pyvenv.cfg"),
    # accounts
    *(".netrc", "_netrc", ".pgpass"),
)
STARTUP_SCRIPT = lazy_pattern(r"\.i?py\Z")
_CONFIG_FOLDER = lazy_pattern(r"jupyter_(?:\w+_)?config\.d\Z")
"""A folder of Jupyter's from which each file is read."""
_REPOSITORY_FILES = frozenset({"config", "config.worktree", "commondir", "hooks"})
"""Names in a repository without a work tree, a folder of any name, by which git runs programs in it."""

PROGRAMS = str(Path(sys.prefix).resolve() / ("Scripts" if os.name == "nt" else "bin"))
"""This interpreter's programs folder: it comes first on a command's PATH, so what is put there runs as `ls`."""

_FOLDERS = tuple(tuple(folder.split("/")) for folder in PROTECTED_FOLDERS)
_BY_FIRST_NAME = {first: [folder for folder in _FOLDERS if folder[0] == first] for first, *_ in _FOLDERS}
_FILES = lazy_pattern("|".join(translate(name) for name in PROTECTED_FILES))
_SHORT_NAME = lazy_pattern(r"([a-z0-9_-]{1,6})~\d")
_BY_SHORT_NAME = {folder[0].lstrip(".")[:6]: folder[0] for folder in _FOLDERS if folder[0] not in (".config", ".local")}
_PROGRAM_FOLDERS = ("bin", "scripts")


def protected_part(place: str) -> str | None:
    """The part of the absolute path `place` that makes it protected, or None. Spelling variants count as the same.

    Names decide, but for two things that are looked up: whether a `bin` belongs to an environment, and whether a
    `config` belongs to a repository.
    """
    names = [_comparable(name) for name in place.split(os.sep)]
    for start, name in enumerate(names):
        for folder in _BY_FIRST_NAME.get(name, ()):
            if tuple(names[start : start + len(folder)]) == folder:
                below = names[start + len(folder) : start + len(folder) + 1]
                if below != [ALLOWED_IN_PROTECTED.get("/".join(folder))]:
                    return "/".join(folder)
        if name in _PROGRAM_FOLDERS and start and _holds(place, start, "pyvenv.cfg"):
            return f"{'/'.join(names[start - 1 : start + 1])}"
        if name[:8] == "jupyter_" and _CONFIG_FOLDER.match(name):
            return name
    programs = _programs()
    if names[: len(programs)] == programs and len(names) > len(programs):
        return PROGRAMS
    if _FILES.match(names[-1]):
        return names[-1]
    if len(names) > 1 and names[-2] == "startup" and STARTUP_SCRIPT.search(names[-1]):
        return f"startup/{names[-1]}"
    return _repository_part(place, names)


def _repository_part(place: str, names: list[str]) -> str | None:
    """The part of the folder of a repository without a work tree, whatever its name, that steers git in it."""
    for at in (len(names) - 1, len(names) - 2):
        if at > 0 and names[at] in _REPOSITORY_FILES and _holds(place, at, "HEAD") and _holds(place, at, "objects"):
            return f"{names[at - 1]}/{names[at]}"
    return None


def makes_repository(place: str) -> bool:
    """Return whether a file at `place` may make git take its folder for a repository, with what stands beside it."""
    # without `HEAD` it takes none for one; a revision that is called so is no file
    return place.endswith(f"{os.sep}HEAD") and not os.path.lexists(place)


def _holds(place: str, at: int, name: str) -> bool:
    """Return whether the folder that the part number `at` of `place` stands in holds something called `name`."""
    return os.path.lexists(os.sep.join([*place.split(os.sep)[:at], name]))


def protected_below(place: str) -> str | None:
    """The protected part that a folder at `place` would give some of its content; None if it gives none."""
    names = [_comparable(name) for name in place.rstrip(os.sep).split(os.sep)]
    for folder in _FOLDERS:
        for length in range(1, len(folder)):
            if tuple(names[-length:]) == folder[:length]:
                return "/".join(folder)
    if names[-1] == "startup":
        return "startup/*.py"
    programs = _programs()
    return PROGRAMS if names == programs[: len(names)] else None


def leads_astray(place: str) -> bool:
    """Return whether a link at `place` would give what it leads to a protected name."""
    return ".git" in place.lower().split(os.sep) or protected_below(place) is not None


@functools.cache
def _programs() -> list[str]:
    return [_comparable(name) for name in PROGRAMS.split(os.sep)]


@functools.lru_cache(maxsize=8192)  # a walk asks of each file, and of the folders above it each time
def _comparable(name: str) -> str:
    if name.isalnum():
        return name.lower()
    # NTFS: `.git::$INDEX_ALLOCATION` and `.git. ` are `.git`, and so is its short name `GIT~1`
    name = folded(name.partition(":")[0].rstrip(". ") or name)
    if short := _SHORT_NAME.fullmatch(name):
        return _BY_SHORT_NAME.get(short[1], name)
    return name


def why_refused_on_windows(path: str, cwd: str) -> str:
    """Return what is wrong with `path`, as the end of a sentence that begins with it; "" if it names one plain place.

    What is in `cwd` is as that is: a folder of a network drive may be the project. Nothing is looked up.
    """
    path, cwd = (text.replace("/", "\\") for text in (path, cwd))
    if path.startswith(("\\\\?\\", "\\\\.\\", "\\??\\")):
        return "is a device's, or goes past the way in which Windows reads paths: write it with its drive"
    drive, rest = ntpath.splitdrive(path)
    if drive.startswith("\\\\") or path.startswith("\\\\"):
        if not drive or drive.casefold() != ntpath.splitdrive(cwd)[0].casefold():
            return "is on another machine, which would learn your name by being asked for it"
    elif drive and not rest.startswith("\\"):
        return "has a drive without the folder on it: write it in full"
    inside = path.casefold().startswith(cwd.casefold().rstrip("\\") + "\\")
    for name in (path[len(cwd.rstrip("\\")) :] if inside else rest).split("\\"):
        if name not in ("", ".", "..") and (why := _why_no_name(name)):
            return why
    return ""


def _why_no_name(name: str) -> str:
    if ":" in name:
        return "names a stream inside a file"
    if name[-1] in ". ":
        return "has a name that ends with a dot or a space, which Windows leaves out: write it without"
    if _DEVICE.fullmatch(name):
        return f"has the name of a device ({name})"
    if _WINDOWS_SHORT_NAME.search(name):
        return f"has a short name ({name}): write it in full"
    return ""


def without_prefix(target: str) -> str:
    r"""The target of a link as people write it: Windows says `\\?\C:\folder` and `\\?\UNC\server\share`."""
    if target.startswith("\\\\?\\UNC\\"):
        return "\\\\" + target[8:]
    return target[4:] if target.startswith("\\\\?\\") and target[5:6] == ":" else target
