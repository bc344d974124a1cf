"""Globs as ripgrep reads them (`.gitignore`'s rules, and `{a,b}`), as regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence


def any_matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    """Build a test for paths that match one of `globs`. Raises ValueError as `glob_matcher`."""
    matchers = [glob_matcher(glob) for glob in globs]
    return matchers[0] if len(matchers) == 1 else lambda path: any(matches(path) for matches in matchers)


def glob_matcher(glob: str) -> Callable[[str], bool]:
    """Build a test for paths relative to the searched folder, with `/`. Raises ValueError for a malformed glob.

    A glob without a slash matches a name in any folder; one with a slash starts at the searched folder.
    """
    try:
        pattern = re.compile(glob_regex(glob), re.DOTALL)
    except re.error as error:
        raise ValueError(f"error parsing glob '{glob}': {error.msg}") from error
    return lambda path: pattern.fullmatch(path) is not None


def glob_regex(glob: str) -> str:
    """The regular expression that a whole path must match."""
    anchored = "/" in glob.rstrip("/")
    body = _Translation(glob.lstrip("/") if glob.startswith("/") else glob).regex()
    return body if anchored or glob.startswith("/") else f"(?:.*/)?{body}"


class _Translation:
    """One pass over a glob."""

    def __init__(self, glob: str) -> None:
        self._glob = glob
        self._at = 0
        self._open = 0

    def regex(self) -> str:
        parts = []
        while self._at < len(self._glob):
            parts.append(self._next())
        if self._open:
            raise ValueError(f"error parsing glob '{self._glob}': unclosed alternate group; missing '}}'")
        return "".join(parts)

    def _next(self) -> str:
        character = self._glob[self._at]
        if character == "*":
            return self._stars()
        self._at += 1
        if character == "[":
            return self._set()
        if character == "\\" and self._at < len(self._glob):
            self._at += 1
            return re.escape(self._glob[self._at - 1])
        if character in "{},":
            return self._alternates(character)
        return "[^/]" if character == "?" else re.escape(character)

    def _stars(self) -> str:
        begins = self._at == 0 or self._glob[self._at - 1] in "/{,"
        count = len(self._glob[self._at :]) - len(self._glob[self._at :].lstrip("*"))
        self._at += count
        after = self._glob[self._at : self._at + 1]
        if count >= 2 and begins and after == "/":
            self._at += 1
            return "(?:.*/)?"
        if count >= 2 and begins and not after:
            return ".+" if self._at > count else ".*"
        return "[^/]*"

    def _alternates(self, character: str) -> str:
        if character == "{":
            self._open += 1
            return "(?:"
        if character == "," and self._open:
            return "|"
        if character == "}" and self._open:
            self._open -= 1
            return ")"
        if character == "}":
            raise ValueError(f"error parsing glob '{self._glob}': unopened alternate group; missing '{{'")
        return re.escape(character)

    def _set(self) -> str:
        start = self._at
        negated = self._glob[start : start + 1] in ("!", "^")
        start += negated
        end = self._glob.find("]", start + 1)
        if end < 0:
            raise ValueError(f"error parsing glob '{self._glob}': unclosed character class; missing ']'")
        self._at = end + 1
        inside = self._glob[start:end].replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]").replace("^", r"\^")
        return f"[^/{inside}]" if negated else f"(?!/)[{inside}]"
