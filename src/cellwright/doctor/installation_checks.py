"""Checks of the installation: all parts there, of versions that go together, known to Jupyter, and imported once.

A library that is installed and cannot be imported would else be found out in the middle of somebody's work.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_path, jupyter_path

from cellwright.doctor.check import Check, Finding
from cellwright.tools.mcp.installed_extras import extras, wrong_versions
from cellwright.version import VERSION

NAMED = ("ipykernel", "ipython", "ipywidgets", "anywidget", "jupyter-server")
"""The packages whose versions are always told."""

OPTIONAL = {"jupyterlab": "4.4", "notebook": "7.4"}
"""The packages that may be in another environment, that of the server."""

SUBSHELLS = "7.1"
"""The ipykernel that answers while a cell runs."""

LOSES_NOTHING = "7.4"
"""The ipykernel that loses no request: before, one that comes while a reply is sent may wait until the kernel is restarted
(https://github.com/ipython/ipykernel/issues/1554)."""

NEIGHBOURS = ("jupyter-ai", "jupyter-cc", "notebook-intelligence", "jupyter-ai-magics")
"""Other assistants: they do not harm, but both suggest code, and both have panels."""

NAME = "cellwright"
_INSTALL = f"{sys.executable} -m pip install --upgrade"

LIBRARIES_OF_TOOLS = "libraries of tools"

BASE = (
    "PIL.Image",
    "docstring_parser",
    "fastjsonschema",
    "h11",
    "httpx2",
    "idna",
    "markdown_it",
    "mistune",
    "msgspec",
    "platformdirs",
    "pydantic",
    "rich",
    "tree_sitter",
    "tree_sitter_bash",
    "tree_sitter_python",
    "yaml",
)
"""The modules that are always needed; not Jupyter's own and not the clouds', which take a second: the check of the key asks
with those."""

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "web": ("trafilatura",),
    "pdf": ("pypdf",),
    "code": tuple(
        f"tree_sitter_{language}" for language in ("c", "cpp", "go", "java", "javascript", "rust", "typescript")
    ),
}
"""The modules that an extra of ours brings."""

WITHOUT = {
    "web": "WebFetch reads whole pages, menus included",
    "pdf": "PDFs cannot be read",
    "code": "only Python, JSON and TOML are checked for syntax, and EditSymbol knows Python alone",
}
"""The loss where an extra is not installed."""

SECONDS = 4.5

_IMPORT = """\
import importlib, json, sys
failed = {}
for name in json.loads(sys.argv[1]):
    try:
        importlib.import_module(name)
    except BaseException as error:
        failed[name] = f"{type(error).__name__}: {error}".partition("\\n")[0]
print(json.dumps(failed))
"""


def installation_checks() -> list[Check]:
    """The checks of what is installed in this interpreter's environment."""
    return [
        Check("Cellwright and Python", _python),
        Check("packages", _packages),
        Check("extras", _extras),
        Check("subshells", lambda: subshells(version_of("ipykernel"))),
        Check(
            "JupyterLab extension", lambda: lab_extension([Path(folder) for folder in jupyter_path("labextensions")])
        ),
        Check(
            "server extension", lambda: server_extension([Path(folder) for folder in reversed(jupyter_config_path())])
        ),
        Check("widget", lambda: widget(Path(__file__).parents[1] / "kernel" / "widgets" / "static")),
        Check("other assistants", _neighbours),
    ]


def _python() -> Finding:
    found = f"Cellwright {VERSION}, Python {platform.python_version()} ({sys.executable}), {platform.platform()}"
    return Finding("Cellwright and Python", "ok", found)


def required() -> dict[str, str]:
    """The packages that have to be beside us, each with its lowest version, as our own package says."""
    found = {}
    for requirement in importlib.metadata.requires(NAME) or ():
        words, _, marker = requirement.partition(";")
        if "extra ==" not in marker and (name := re.match(r"[\w.-]+", words)):
            least = re.search(r">=\s*([\d.]+)", words)
            found[name[0]] = least[1] if least else "0"
    return found


def _packages() -> Finding:
    needed = required()
    versions = {name: version_of(name) for name in (*needed, *OPTIONAL)}
    named = (*NAMED, *OPTIONAL, *(name for name in needed if not versions[name]))
    found = ", ".join(f"{name} {versions[name] or 'missing'}" for name in dict.fromkeys(named))
    lacking = [f"'{name}>={least}'" for name, least in needed.items() if not is_at_least(versions[name], least)]
    if lacking:
        return Finding("packages", "problem", found, f"Install: {_INSTALL} {' '.join(lacking)}")
    old = [
        f"'{name}>={least}'" for name, least in OPTIONAL.items() if versions[name] and _is_old(versions[name], least)
    ]
    if old:
        return Finding("packages", "problem", found, f"Too old for the extension: {_INSTALL} {' '.join(old)}")
    if not any(versions[name] for name in OPTIONAL):
        advice = "None of JupyterLab and Notebook is in this environment: fine if the server runs in another one."
        return Finding("packages", "ok", found, advice)
    return Finding("packages", "ok", found)


def _extras() -> Finding:
    name = "extras"
    wrong: dict[str, list[str]] = {}
    for extra in extras():
        if problem := wrong_versions(extra):
            wrong.setdefault(problem, []).append(extra)
    if not wrong:
        return Finding(name, "ok", "the versions of their packages fit")
    return Finding(name, "warning", " ".join(f"{', '.join(of)}: {problem}" for problem, of in wrong.items()))


def subshells(version: str) -> Finding:
    """The finding about a version of ipykernel: whether it answers while a cell runs, and loses nothing."""
    if is_at_least(version, LOSES_NOTHING):
        return Finding("subshells", "ok", f"ipykernel {version} answers while a cell runs")
    if is_at_least(version, SUBSHELLS):
        found = f"ipykernel {version} answers while a cell runs, but may lose a request: a cell then never begins"
        return Finding("subshells", "warning", found, f"{_INSTALL} 'ipykernel>={LOSES_NOTHING}'")
    found = (
        f"ipykernel {version or '(missing)'} has no subshells: the panel and suggestions wait for the cell that runs"
    )
    return Finding("subshells", "warning", found, f"{_INSTALL} 'ipykernel>={SUBSHELLS}'")


def lab_extension(folders: Sequence[Path]) -> Finding:
    """The browser's part, where a JupyterLab of this environment looks for it."""
    name = "JupyterLab extension"
    package = next((each for folder in folders if (each := folder / NAME / "package.json").is_file()), None)
    if package is None:
        found = f"not in {', '.join(map(str, folders))}"
        advice = (
            "Where the server runs in another environment, Cellwright has to be installed in that one as well. "
            f"Here: {_INSTALL} --force-reinstall --no-deps {NAME}, and reload the page."
        )
        return Finding(name, "warning", found, advice)
    version = str(_json(package).get("version", "unknown"))
    if version != VERSION:
        advice = f"Install the same version in both places, and reload the page: {_INSTALL} {NAME}=={VERSION}"
        return Finding(name, "problem", f"version {version} in {package.parent}, but the package is {VERSION}", advice)
    return Finding(name, "ok", f"version {version} in {package.parent}")


def server_extension(folders: Sequence[Path]) -> Finding:
    """The server's part, where a server of this environment looks for it; a later folder counts more."""
    name, enabled, where = "server extension", None, Path()
    for file in (file for folder in folders for file in _server_configs(folder)):
        known = _json(file).get("ServerApp", {})
        said = known.get("jpserver_extensions", {}).get(NAME) if isinstance(known, dict) else None
        if isinstance(said, bool):
            enabled, where = said, file
    if enabled:
        return Finding(name, "ok", f"enabled by {where}")
    found = f"switched off by {where}" if enabled is False else "not enabled in this environment"
    advice = (
        f"jupyter server extension enable {NAME}: the proxy for keys, REST and runs over HTTP need it, cells and the panel "
        "do not. In another environment's server it is that one's matter."
    )
    return Finding(name, "warning", found, advice)


def widget(folder: Path) -> Finding:
    """Check the widget that draws a cell's transcript."""
    missing = [name for name in ("loader.js", "transcript.js") if not (folder / name).is_file()]
    if not missing:
        return Finding("widget", "ok", f"in {folder}")
    advice = (
        f"Cells show plain text without it. {_INSTALL} --force-reinstall --no-deps {NAME} (in a checkout: make build)"
    )
    return Finding("widget", "problem", f"{', '.join(missing)} not in {folder}", advice)


def _neighbours() -> Finding:
    there = [f"{name} {version}" for name in NEIGHBOURS if (version := version_of(name))]
    if not there:
        return Finding("other assistants", "ok", "none")
    advice = "They go together; where both suggest code as you type, switch one of them off."
    return Finding("other assistants", "ok", ", ".join(there), advice)


def version_of(package: str) -> str:
    """The version that is installed; "" where none is."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def is_at_least(version: str, least: str) -> bool:
    """Return whether a version is there and not too old.

    >>> is_at_least("7.10.1", "7.4"), is_at_least("6.30", "6.31"), is_at_least("", "1")
    (True, False, False)
    """
    return bool(version) and not _is_old(version, least)


def _is_old(version: str, least: str) -> bool:
    return _numbers(version) < _numbers(least)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _server_configs(folder: Path) -> Iterator[Path]:
    drop_ins = folder / "jupyter_server_config.d"
    yield from sorted(drop_ins.glob("*.json")) if drop_ins.is_dir() else ()
    if (file := folder / "jupyter_server_config.json").is_file():
        yield file


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def library_checks() -> list[Check]:
    """The check of this interpreter's libraries."""
    return [Check(LIBRARIES_OF_TOOLS, lambda: libraries(BASE, EXTRAS))]


def libraries(base: Iterable[str], extras: Mapping[str, Iterable[str]], seconds: float = SECONDS) -> Finding:
    """Import the modules of `base`, and those of `extras` that are there, for at most `seconds`."""
    there = {
        extra: [module for module in modules if importlib.util.find_spec(module) is not None]
        for extra, modules in extras.items()
    }
    try:
        failed = _failures([*base, *(module for modules in there.values() for module in modules)], seconds)
    except subprocess.TimeoutExpired:
        return Finding(
            LIBRARIES_OF_TOOLS, "warning", f"they could not all be imported within {seconds:g} s", "Try again."
        )
    if failed:
        broken = [extra for extra, modules in there.items() if set(modules) & set(failed)]
        package = f"cellwright[{','.join(broken)}]" if broken else "cellwright"
        found = "; ".join(f"{module} cannot be imported ({reason})" for module, reason in failed.items())
        return Finding(LIBRARIES_OF_TOOLS, "problem", found, f"{sys.executable} -m pip install --upgrade '{package}'")
    missing = [extra for extra, modules in extras.items() if len(there[extra]) < len(list(modules))]
    if not missing:
        return Finding(LIBRARIES_OF_TOOLS, "ok", "all can be imported")
    advice = "; ".join(f"{WITHOUT[extra]}: pip install 'cellwright[{extra}]'" for extra in missing)
    return Finding(LIBRARIES_OF_TOOLS, "ok", f"all can be imported; without the extras {', '.join(missing)}", advice)


def _failures(modules: list[str], seconds: float) -> dict[str, str]:
    """The modules that a fresh interpreter cannot import, each with the reason."""
    # this process is the user's kernel: it keeps neither their memory nor what a broken one leaves behind
    command = [sys.executable, "-P", "-W", "ignore", "-c", _IMPORT, json.dumps(modules)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
    if done.returncode != 0:
        return {"a module": f"Python ended with exit code {done.returncode}"}
    failed: dict[str, str] = json.loads(done.stdout)
    return failed
