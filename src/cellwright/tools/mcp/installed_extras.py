"""The versions of the packages of our extras: those that do not fit, and who holds them.

Most often it is `mcp`, of which other assistants need the major version before ours.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator

from cellwright.text import lazy_pattern
from cellwright.version import VERSION, documented

NAME = "cellwright"

_REQUIREMENT = lazy_pattern(r"\s*(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*\(?(?P<versions>[^;()]*)\)?\s*(?:;(?P<marker>.*))?")
_EXTRA = lazy_pattern(r"extra\s*==\s*['\"](?P<extra>[\w.-]+)['\"]")
_BOUND = lazy_pattern(r"(?P<how>===|==|!=|~=|<=|>=|<|>)\s*(?P<version>[\w.+!*-]+)")


def extra_problem(extra: str) -> str:
    """Say what keeps an extra of ours from working (a package is missing, or another version is held), "" if nothing does.

    >>> extra_problem("no such extra")
    ''
    """
    missing = [name for name, _ in _packages_of(extra) if not installed_version(name)]
    if missing:
        several = "s are" if len(missing) > 1 else " is"
        return f"The package{several} missing: {', '.join(missing)}. Install: pip install '{NAME}[{extra}]'"
    return wrong_versions(extra)


def wrong_versions(extra: str) -> str:
    """Say which packages of an extra are installed in a version that does not fit, and who needs that one; "" for none."""
    wrong = [
        (name, versions)
        for name, versions in _packages_of(extra)
        if (there := installed_version(name)) and not admits(versions, there)
    ]
    if not wrong:
        return ""
    held = [(name, versions, [*_holders(name, versions)]) for name, versions in wrong]
    words = [
        f"{name} {installed_version(name)} is installed, and Cellwright {VERSION} needs {name}{versions}"
        + (f": {'; '.join(holders)}." if holders else ".")
        for name, versions, holders in held
    ]
    if any(holders for _, _, holders in held):
        return f"{' '.join(words)} Install Cellwright in an environment of its own for it ({documented('mcp')})."
    return f"{' '.join(words)} Install: pip install --upgrade '{NAME}[{extra}]'"


def extras() -> list[str]:
    """The names of our extras, as far as users have use for them."""
    try:
        found = importlib.metadata.metadata(NAME).get_all("Provides-Extra") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [name for name in found if name not in ("docs", "test")]


def installed_version(package: str) -> str:
    """The version that is installed; "" if none is."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def admits(versions: str, version: str) -> bool:
    """Return whether bounds of versions admit `version`.

    >>> admits(">=2.3,<3", "2.10.1"), admits("<2", "2.3"), admits("~=1.4", "1.26"), admits("==1.2.*", "1.3")
    (True, False, True, False)
    """
    return all(_is_within(bound["how"], bound["version"], version) for bound in _BOUND.finditer(versions))


def _is_within(how: str, bound: str, version: str) -> bool:
    prefix = bound.removesuffix(".*")
    least, there = _numbers(prefix), _numbers(version)
    same = there[: len(least)] == least if bound.endswith(".*") else _padded(there) == _padded(least)
    match how:
        case "==" | "===":
            return same
        case "!=":
            return not same
        case "~=":
            return _padded(there) >= _padded(least) and there[: len(least) - 1] == least[:-1]
        case "<=":
            return _padded(there) <= _padded(least)
        case ">=":
            return _padded(there) >= _padded(least)
        case "<":
            return _padded(there) < _padded(least)
        case _:
            return _padded(there) > _padded(least)


def _numbers(version: str) -> tuple[int, ...]:
    release = re.match(r"(?:\d+!)?(\d+(?:\.\d+)*)", version.lstrip("v"))
    return tuple(map(int, release[1].split("."))) if release else ()


def _padded(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return (*numbers, *(0 for _ in range(6 - len(numbers))))


def _holders(package: str, versions: str) -> Iterator[str]:
    """The packages that need another version than ours, and which packages need those."""
    installed = {
        str(each.metadata["Name"]): (each.version, each.requires or []) for each in importlib.metadata.distributions()
    }
    least = re.search(r">=\s*([\d.]+)", versions)
    for name, (version, needs) in sorted(installed.items()):
        own = [each for each in _needs(needs) if _plain(each[0]) == _plain(package)]
        if name == NAME or not own or not least or all(admits(bounds, least[1]) for _, bounds in own):
            continue
        users = [
            f"{user} {its_version}"
            for user, (its_version, its_needs) in sorted(installed.items())
            if any(_plain(each) == _plain(name) for each, _ in _needs(its_needs))
        ]
        of_others = f" (for {', '.join(users)})" if users else ""
        yield f"{name} {version}{of_others} needs {package}{own[0][1]}"


def _packages_of(extra: str) -> list[tuple[str, str]]:
    """The packages that an extra brings, each with the bounds of its version."""
    return [(name, bounds) for name, bounds, named in _required() if named == extra and _plain(name) != NAME]


def _required() -> Iterator[tuple[str, str, str]]:
    """Our own requirements: the package, its bounds, the extra that it belongs to."""
    try:
        lines = importlib.metadata.requires(NAME) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for line in lines:
        if (found := _REQUIREMENT.match(line)) is not None:
            extra = _EXTRA.search(found["marker"] or "")
            yield found["name"], found["versions"].strip(), extra["extra"] if extra else ""


def _needs(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The requirements of a package without its extras: names and bounds."""
    for line in lines:
        found = _REQUIREMENT.match(line)
        if found is not None and not _EXTRA.search(found["marker"] or ""):
            yield found["name"], found["versions"].strip()


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
