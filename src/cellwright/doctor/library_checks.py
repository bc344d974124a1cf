"""The check of the libraries that tools import when they are first used: all of them are imported once, in a child process.

A library that is installed and cannot be imported would else be found out in the middle of somebody's work.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping

from cellwright.doctor.check import Check, Finding

NAME = "libraries of tools"

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


def library_checks() -> list[Check]:
    """The check of this interpreter's libraries."""
    return [Check(NAME, lambda: libraries(BASE, EXTRAS))]


def libraries(base: Iterable[str], extras: Mapping[str, Iterable[str]], seconds: float = SECONDS) -> Finding:
    """Import the modules of `base`, and those of `extras` that are there, for at most `seconds`."""
    there = {extra: [module for module in modules if _is_installed(module)] for extra, modules in extras.items()}
    try:
        failed = _failures([*base, *(module for modules in there.values() for module in modules)], seconds)
    except subprocess.TimeoutExpired:
        return Finding(NAME, "warning", f"they could not all be imported within {seconds:g} s", "Try again.")
    if failed:
        broken = [extra for extra, modules in there.items() if set(modules) & set(failed)]
        package = f"cellwright[{','.join(broken)}]" if broken else "cellwright"
        found = "; ".join(f"{module} cannot be imported ({reason})" for module, reason in failed.items())
        return Finding(NAME, "problem", found, f"{sys.executable} -m pip install --upgrade '{package}'")
    missing = [extra for extra, modules in extras.items() if len(there[extra]) < len(list(modules))]
    if not missing:
        return Finding(NAME, "ok", "all can be imported")
    advice = "; ".join(f"{WITHOUT[extra]}: pip install 'cellwright[{extra}]'" for extra in missing)
    return Finding(NAME, "ok", f"all can be imported; without the extras {', '.join(missing)}", advice)


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _failures(modules: list[str], seconds: float) -> dict[str, str]:
    """The modules that a fresh interpreter cannot import, each with the reason."""
    # this process is the user's kernel: it keeps neither their memory nor what a broken one leaves behind
    command = [sys.executable, "-P", "-W", "ignore", "-c", _IMPORT, json.dumps(modules)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
    if done.returncode != 0:
        return {"a module": f"Python ended with exit code {done.returncode}"}
    failed: dict[str, str] = json.loads(done.stdout)
    return failed
