"""The profile of every confined command: what programs need in order to run, and what no readable folder gives away.

The lists are of what breaks without it, found by trying: a program that may not read `/etc` fails at things that have
nothing to do with it. Where an environment is taken from a variable or from PATH, the home and what is above it never are.

A virtual environment needs the Python that it was made from, and the packages that lie outside of it. A `pyvenv.cfg` of
the user's own environment is believed. One that lies in the session's folders may say anything: its base counts if it has
an interpreter's shape and lies where interpreters are installed, or outside of every home; and then only the parts that an
interpreter consists of are read.
"""

from __future__ import annotations

import functools
import os
import site
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from cellwright.permissions.confined.git_data import linked_git_data, read_briefly
from cellwright.permissions.paths import SECRET_PLACES
from cellwright.sandbox import git_configuration
from cellwright.sandbox.paths import Places, below, entries_of, exists, holds, led_out, outermost, steered
from cellwright.sessions.state_dir import state_folder
from cellwright.text import lazy_pattern

if sys.platform != "win32":  # which has no sandbox
    import pwd

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/run/current-system")
SYSTEM_DATA = (
    *("/etc", "/proc", "/sys/devices/system", "/sys/fs/cgroup"),
    *("/var/lib/dpkg", "/var/lib/rpm", "/var/lib/pacman", "/var/cache/fontconfig", "/var/db/timezone"),
)
MACOS = ("/System", "/Library", "/usr", "/bin", "/sbin", "/opt", "/Applications", "/private/var/db/timezone")
MACOS_DATA = ("/private/etc", "/private/var/select", "/dev")


_PREFIX_VARIABLES = (
    *("CONDA_PREFIX", "PYENV_ROOT", "VIRTUAL_ENV", "NVM_DIR", "JAVA_HOME", "GOROOT", "RUSTUP_HOME", "R_HOME"),
    *("R_LIBS_USER", "R_LIBS", "PYTHONPATH", "PERL5LIB", "NODE_PATH"),
)
_FILE_VARIABLES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("GIT_SSL_CAINFO", "PIP_CERT", "RIPGREP_CONFIG_PATH", "LS_COLORS_FILE"),
)
_INSIDE_DOT_LOCAL = ("bin", "lib", "lib64", "pipx", "share/pipx", "share/uv/python", "share/uv/tools", "share/mise")
"""Parts of `~/.local` that its programs need; the rest of it is data of all kinds of programs."""

_DROPPED = lazy_pattern(
    r"SSH_AUTH_SOCK|SSH_AGENT_PID|GPG_AGENT_INFO|DBUS_.*|WAYLAND_DISPLAY|DISPLAY|XAUTHORITY|XDG_RUNTIME_DIR|DOCKER_.*"
    r"|CONTAINER_HOST|PODMAN_.*|KUBECONFIG|JUPYTERHUB_.*|JUPYTER_RUNTIME_DIR|NVIM|TMUX|STY|VSCODE_.*|INVOCATION_ID"
)
"""Ways to sockets, and to keys by which others take orders."""

_CACHES = {
    "XDG_CACHE_HOME": "",
    "RUFF_CACHE_DIR": "ruff",
    "UV_CACHE_DIR": "uv",
    "MYPY_CACHE_DIR": "mypy",
    "PIP_CACHE_DIR": "pip",
    "npm_config_cache": "npm",
    "GOCACHE": "go",
    "MPLCONFIGDIR": "matplotlib",
    "NUMBA_CACHE_DIR": "numba",
    "HYPOTHESIS_STORAGE_DIRECTORY": "hypothesis",
    # made where they are missing, also by what only shows a version
    "IPYTHONDIR": "ipython",
    "JUPYTER_CONFIG_DIR": "jupyter/config",
    "JUPYTER_DATA_DIR": "jupyter/data",
    "JUPYTER_RUNTIME_DIR": "jupyter/runtime",
}

_JUPYTER_PARTS = ("kernels", "labextensions", "nbconvert/templates")
"""Parts of Jupyter's folder of data; beside them are the keys that notebooks are signed with."""

_VENVS = (".venv", "venv", "env")
"""The usual names of virtual environments in a project."""

_OWN_ENVIRONMENT = tuple(dict.fromkeys(os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix)))
"""Found out once: a link in a project may lead to it, and elsewhere later."""

_INSTALLERS_VARIABLES = {"UV_PYTHON_INSTALL_DIR": "*", "PYENV_ROOT": "versions/*", "XDG_DATA_HOME": "uv/python/*"}
"""The variables that say where interpreters are installed, and where in that folder each of them is."""

INTERPRETER_PARTS = ("bin", "lib", "lib64", "include", "ssl", "share/terminfo", "share/zoneinfo")
"""The parts of an interpreter that a program needs; beside them may lie anything."""


_INSTALLED = (
    *(".local/share/uv/python/*", "Library/Application Support/uv/python/*", ".pyenv/versions/*"),
    *(".asdf/installs/python/*", ".local/share/mise/installs/python/*", ".rye/py/*", ".local/share/pdm/python/*"),
    *(".local/share/hatch/pythons/*/python", ".pixi/envs/*", ".conda/envs/*"),
    *(
        place
        for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", "miniconda", "anaconda")
        for top in (name, f"opt/{name}")
        for place in (top, f"{top}/envs/*")
    ),
)
"""Places of interpreters in a home."""

_HOMES = ("/home", "/Users", "/root", "/var/home", "/export/home")

_BASE = lazy_pattern(r"(?m)^home[ \t]*=[ \t]*(/.*?)[ \t\r]*$")
_FINDERS_PATHS = lazy_pattern(r"(?m)^(?:MAPPING|NAMESPACES)\b.*$")
_QUOTED_PLACE = lazy_pattern(r"['\"](/[^'\"]+)['\"]")


class Needs(Struct, frozen=True):
    """The needs of programs: `read` is read and run, `data` is read. Real paths, not all of which need exist.

    `links` are the symbolic links on the way to them, with their targets.
    """

    read: tuple[str, ...]
    data: tuple[str, ...]
    links: Mapping[str, str]


NO_NEEDS = Needs((), (), {})


def confined_environment(environ: Mapping[str, str], temporary: str, caches: str) -> dict[str, str]:
    """The environment of a confined command: no ways to sockets, temporary files and caches in folders of its own."""
    kept = {name: value for name, value in environ.items() if not _DROPPED.fullmatch(name)}
    return {
        **kept,
        **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), temporary),
        **{name: f"{caches}/{folder}".rstrip("/") for name, folder in _CACHES.items()},
        # a folder that is mounted is no other file system
        "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",
        # its own folders are others, and what the user has installed is found all the same
        "JUPYTER_PATH": os.pathsep.join([*_given(environ, ("JUPYTER_PATH",)), *_jupyter_data(environ)]),
        # pytest writes it to its project, and says so at length if it can't
        "PYTEST_ADDOPTS": f"{environ.get('PYTEST_ADDOPTS', '')} -o cache_dir={caches}/pytest".strip(),
        # they may hold tokens, so they are hidden; what is refused instead of absent is fatal to npm and pip
        **{"npm_config_userconfig": os.devnull, "PIP_CONFIG_FILE": os.devnull},
    }


def needed_by_programs(environ: Mapping[str, str], roots: tuple[str, ...] = ()) -> Needs:
    """Find what the system's programs need, and those that PATH, the interpreter and `environ` lead to.

    `roots` are the session's folders, as real paths: nothing in them opens anything outside but the interpreter's parts that
    one of their virtual environments was made from.
    """
    own = ("PATH", "HOME", "JUPYTER_DATA_DIR", *_PREFIX_VARIABLES, *_FILE_VARIABLES)
    names = dict.fromkeys((*own, *git_configuration.VARIABLES, *_INSTALLERS_VARIABLES))
    variables = tuple((name, environ[name]) for name in names if name in environ)
    # environments change seldom, and finding out where all their paths lead takes longer than starting a command
    return _needs(variables, roots, int(time.monotonic() // 10))


@functools.lru_cache(maxsize=16)
def _needs(variables: tuple[tuple[str, str], ...], roots: tuple[str, ...], _when: int) -> Needs:
    environ = dict(variables)
    home = home_folder(environ)
    given = [sys.prefix, sys.base_prefix, *_given(environ, _PREFIX_VARIABLES)]
    venvs = [f"{root}/{name}" for root in roots for name in _VENVS]
    for folder in _given(environ, ("PATH",)):
        if steered(folder, roots):
            venvs.append(str(Path(folder).parent))
        else:
            given += _of_programs_in(folder, home)
    if any(folder == f"{home}/.cargo/bin" for folder in given):
        given.append(f"{home}/.rustup")
    # a folder of theirs is readable already, and a link of theirs leads wherever they want
    prefixes = [*(path for path in given if not steered(path, roots)), *_OWN_ENVIRONMENT]
    prefixes += environment_bases([*given, *prefixes, *venvs], environ, home, roots)
    prefixes += [folder for prefix in dict.fromkeys(prefixes) for folder in installed_in_place(prefix, roots)]
    prefixes.append(site.getusersitepackages())
    macos = sys.platform == "darwin"
    # git reads two files beside its configuration: one that is there and refused is fatal to some of its commands
    git_folder = f"{environ.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git"
    data = [
        *_given(environ, _FILE_VARIABLES),
        *(f"{git_folder}/{name}" for name in ("ignore", "attributes")),
        *git_configuration.git_configuration(environ, home, roots).named,
        *(f"{folder}/{part}" for folder in _jupyter_data(environ) for part in _JUPYTER_PARTS),
    ]
    data = [*(MACOS_DATA if macos else SYSTEM_DATA), *(path for path in data if not steered(path, roots))]
    if not macos:
        data.append(os.path.realpath("/etc/resolv.conf"))
    prefixes = [path for path in dict.fromkeys(prefixes) if not holds(path, home) and not steered(path, roots)]
    places = Places()
    return Needs(
        outermost(places.real([*(MACOS if macos else SYSTEM), *prefixes])),
        outermost(places.real(path for path in data if not holds(path, home))),
        places.links,
    )


def git_folders(roots: Iterable[str], cwd: str) -> Iterator[str]:
    """Find where git keeps the data of the repositories that `roots`, real paths, and `cwd` lie in.

    A `.git` file can name any folder: it is followed only to one that names it in turn. A link is not followed at all.
    """
    roots = tuple(roots)
    folders = roots if led_out(cwd, roots) else (*roots, os.path.realpath(cwd))
    for folder in dict.fromkeys(folders):
        for parent in (Path(folder), *Path(folder).parents):
            git = parent / ".git"
            if git.is_symlink():
                pass
            elif os.path.isdir(git):  # noqa: PTH112 - nor may we go everywhere
                yield str(git)
            elif exists(git):
                if data := linked_git_data(str(git)):
                    yield data
            else:
                continue
            break


def secret_places(environ: Mapping[str, str], roots: tuple[str, ...] = ()) -> Iterator[str]:
    """The usual places of secrets; not all need exist."""
    home = home_folder(environ)
    yield from (f"{home}/{place}" for place in SECRET_PLACES)
    if folder := environ.get("XDG_CONFIG_HOME"):
        yield from (f"{folder}/git/{name}" for name in ("config", "credentials"))
    configuration = git_configuration.git_configuration(environ, home, roots)
    yield from (*configuration.originals, *configuration.secret)
    yield str(state_folder())
    for variable, place in (("GNUPGHOME", ""), ("JUPYTER_RUNTIME_DIR", ""), ("JUPYTER_DATA_DIR", "/runtime")):
        if value := os.environ.get(variable):
            yield f"{value}{place}"
    for variable in ("CLAUDE_CONFIG_DIR",):
        if value := os.environ.get(variable):
            yield f"{value}/.credentials.json"


def home_folder(environ: Mapping[str, str]) -> str:
    """The user's home, as a real path."""
    return os.path.realpath(environ.get("HOME") or Path.home())


def _given(environ: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """The absolute paths that variables hold."""
    paths = (path for name in names for path in environ.get(name, "").split(os.pathsep))
    # a device is no file of programs: `GIT_CONFIG_GLOBAL=/dev/null` would make it one that can't be written to
    return [path.rstrip("/") for path in paths if path.startswith("/") and path != "/" and not path.startswith("/dev/")]


def _of_programs_in(folder: str, home: str) -> Iterator[str]:
    """Find what the programs of a folder on PATH need: it, and the prefix that it is part of, if it looks like one."""
    yield folder
    if (real := os.path.realpath(folder)) != folder:
        yield real
    prefix = Path(real).parent
    if str(prefix) == f"{home}/.local":
        yield from (f"{prefix}/{name}" for name in _INSIDE_DOT_LOCAL)
    elif Path(real).name == "shims" or any(exists(prefix / name) for name in ("lib", "pyvenv.cfg", "conda-meta")):
        yield str(prefix)


def _jupyter_data(environ: Mapping[str, str]) -> Iterator[str]:
    """Jupyter's folders of the user's kernels and extensions."""
    yield from _given(environ, ("JUPYTER_DATA_DIR",))
    home = home_folder(environ)
    yield f"{home}/Library/Jupyter" if sys.platform == "darwin" else f"{home}/.local/share/jupyter"


def environment_bases(
    prefixes: Iterable[str], environ: Mapping[str, str], home: str, roots: tuple[str, ...]
) -> Iterator[str]:
    """The prefixes of the interpreters that the virtual environments at `prefixes` were made from, or their parts."""
    for prefix in dict.fromkeys(prefixes):
        file = f"{prefix}/pyvenv.cfg"
        found = _BASE.search(read_briefly(file))
        if not found or "\0" in found[1]:
            continue
        base = str(Path(os.path.realpath(found[1])).parent)
        if not steered(file, roots):
            yield base
        elif _is_installed(base, environ, home, roots):
            yield from (f"{base}/{part}" for part in INTERPRETER_PARTS)


def installed_in_place(prefix: str, roots: tuple[str, ...]) -> Iterator[str]:
    """Find the folders outside of the environment at `prefix` whose packages are installed in it (`pip install -e`).

    Python looks into them at its start, and `pip list` fails if one is there and refused. What lies in `roots` names none.
    """
    # `glob` fails where a folder is closed to us
    for python in entries_of(Path(prefix, "lib")):
        packages = python / "site-packages"
        if not python.name.startswith("python3") or steered(str(packages), roots):
            continue
        for file in entries_of(packages):
            paths = file.suffix in (".pth", ".egg-link")
            finder = file.name.startswith("__editable__") and file.name.endswith("_finder.py")
            if not (paths or finder) or steered(str(file), roots):
                continue
            # more of a `.pth` file or of a finder is not read: a finder names each of its packages
            text = read_briefly(str(file), 1_000_000)
            if paths:
                lines = (line.strip() for line in text.splitlines())
                yield from (line for line in lines if line.startswith("/") and "\0" not in line)
            else:
                for found in _FINDERS_PATHS.finditer(text):
                    yield from _QUOTED_PLACE.findall(found[0])


def _is_installed(base: str, environ: Mapping[str, str], home: str, roots: tuple[str, ...]) -> bool:
    """Return whether an interpreter is installed at the real path `base`, whoever says so."""
    if holds(base, home) or any(below(root, base) or below(base, root) for root in roots):
        return False
    # a virtual environment is nobody's base, and one can be made in any folder
    if exists(f"{base}/pyvenv.cfg"):
        return False
    programs = entries_of(Path(base, "bin"))
    if not any(each.name.startswith("python3") and os.access(each, os.X_OK) for each in programs):
        return False
    if not any(each.name.startswith("python3.") for each in entries_of(Path(base, "lib"))):
        return False
    return not _in_a_home(base, home) or any(_fits(base, place) for place in _places(environ, home, roots))


def _in_a_home(base: str, home: str) -> bool:
    if any(below(base, place) for place in (home, *_HOMES)):
        return True
    try:
        owners = {os.getuid(), Path(base).stat().st_uid}
    except OSError:
        return True
    return any(below(base, place) for owner in owners if (place := _home_of(owner)) != "/")


def _home_of(user: int) -> str:
    try:
        return os.path.realpath(pwd.getpwuid(user).pw_dir)
    except KeyError:  # in a container a user may have no entry
        return "/"


def _places(environ: Mapping[str, str], home: str, roots: tuple[str, ...]) -> Iterator[str]:
    yield from (f"{home}/{place}" for place in _INSTALLED)
    for variable, inside in _INSTALLERS_VARIABLES.items():
        value = environ.get(variable, "")
        if value.startswith("/") and not steered(value, roots):
            yield f"{os.path.realpath(value)}/{inside}"


def _fits(base: str, place: str) -> bool:
    parts, wanted = base.split("/"), place.split("/")
    return len(parts) == len(wanted) and all(want in ("*", part) for part, want in zip(parts, wanted, strict=True))
