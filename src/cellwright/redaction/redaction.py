"""The one search for secrets: texts and JSON without them, and what was found, in words.

Secrets of the environment are known by their values, all others by their looks (`secret_kinds.py`) and by the names
beside them (`named_secrets.py`).
"""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from cellwright.redaction.secret_names import is_always_secret, is_secret_name
from cellwright.text import counted, lazy_pattern

if TYPE_CHECKING:
    from cellwright.redaction.secret_kinds import SecretKind

SHORTEST_VALUE = 8
"""Of the environment: what is shorter is found everywhere by chance."""
LONG_VALUE = 16

LONGEST_SECRET = 4_000
"""A text that is cut is searched this far beyond the cut: half a secret is not known for one."""


KINDS = "cellwright.redaction.named_secrets"
"""The module that is imported with the first search, on a thread."""

_CELL_OUTPUT = lazy_pattern(r"(?ms)^<output[ >].*?(?:^</output>|\Z)")
_TOKEN_REST = lazy_pattern(r"(?=\D*\d)[\w.-]{8,}")
_WEB_TOKEN = lazy_pattern(r"ey[\w-]+\.ey[\w-]+\.")
_REST_OF_TOKEN = lazy_pattern(r"(?<=[\w.])[\w+/=.-]*")

_APART = "\n" * 8
"""Between texts that are searched together: no secret and its name stand so far apart."""

Span = tuple[int, int, str]


class RedactedText(Struct, frozen=True):
    """A text without its secrets, and how many of each kind there were."""

    text: str
    kinds: Counter[str] = field(default_factory=Counter)


class Redaction(Struct, frozen=True):
    """Finds secrets; `secret_values()` gives those of the environment, by the names of their variables, as it is now."""

    secret_values: Callable[[], Mapping[str, str]] = dict

    def clean(self, text: str) -> RedactedText:
        """`text` with each secret replaced by `[secret removed: KIND]`. Linear in its length."""
        kinds: Counter[str] = Counter()
        pieces: list[str] = []
        end = 0
        for start, stop, kind in sorted(self._spans(text), key=lambda span: (span[0], -span[1])):
            if start >= end:
                pieces += [text[end:start], removed(kind)]
                kinds[kind] += 1
            end = max(end, stop)
        return RedactedText("".join([*pieces, text[end:]]), kinds) if kinds else RedactedText(text)

    def clean_each(self, texts: Iterable[str]) -> dict[str, str]:
        """The texts that hold secrets, by what they are without them: `clean` of each, for many short ones.

        Most hold none, which one search in all of them together shows; the environment is read once.
        """
        once = self.as_of_now()
        found: dict[str, str] = {}
        groups = [[*dict.fromkeys(texts)]]
        while groups:
            group = groups.pop()
            if len(group) == 1:
                if (cleaned := once.clean(group[0])).kinds:
                    found[group[0]] = cleaned.text
            elif next(once._spans(_APART.join(group)), None) is not None:
                middle = len(group) // 2
                groups += [group[:middle], group[middle:]]
        return found

    def as_of_now(self) -> Redaction:
        """The same for a piece of work, by the secrets that the environment has now."""
        values = dict(self.secret_values())
        return Redaction(lambda: values)

    def clean_outputs(self, text: str) -> RedactedText:
        """The same for the outputs of a notebook's cells alone: sources must stay what they are to be edited."""
        kinds: Counter[str] = Counter()

        def replaced(match: re.Match[str]) -> str:
            cleaned = self.clean(match[0])
            kinds.update(cleaned.kinds)
            return cleaned.text

        return RedactedText(_CELL_OUTPUT.sub(replaced, text), kinds)

    def is_quick(self, text: str) -> bool:
        """Return whether searching `text` is too quick to be worth a thread."""
        # as much is searched on the loop; more on a thread
        return len(text) <= 20_000 and KINDS in sys.modules

    def _spans(self, text: str) -> Iterator[Span]:
        yield from self._environment_spans(text)
        from cellwright.redaction.secret_kinds import SearchedText  # with its first text

        if len(text) < 12 and text.isidentifier():
            return  # a field's name or a word, as JSON is full of
        searched = SearchedText(text)
        for kind in all_kinds():
            if kind.is_word and not searched.has_any(kind):
                continue
            end = 0
            for match in kind.matches(searched):
                if match.start() >= end:  # else it is the rest of the one before
                    start, end = _removed_span(kind, match)
                    yield start, end, kind.name

    def _environment_spans(self, text: str) -> Iterator[Span]:
        for name, value in self.secret_values().items():
            if not is_distinctive(value, name):
                continue
            short = len(value) < LONG_VALUE
            start = text.find(value)
            while start >= 0:
                stop = start + len(value)
                # in the middle of a word it stands by chance
                before = start > 0 and text[start - 1].isalnum() and text[start].isalnum()
                after = stop < len(text) and text[stop].isalnum() and text[stop - 1].isalnum()
                if not (short and (before or after)):
                    yield start, stop, f"value of ${name}"
                start = text.find(value, stop)


class JsonRedaction(Struct):
    """Takes the secrets that there are now out of JSON, by `redaction`; `found` counts them by kind."""

    redaction: Redaction
    found: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.redaction = self.redaction.as_of_now()

    def clean(self, value: Any) -> Any:
        """`value` with the secrets in its strings replaced, and the texts under names of secrets. Images are left alone."""
        if isinstance(value, str):
            return self.clean_text(value)
        if isinstance(value, Mapping):
            return {self._key(name): self._item(value, name, item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(item) for item in value]
        return value

    def clean_text(self, text: str) -> str:
        """`text` with the secrets in it replaced."""
        cleaned = self.redaction.clean(text)
        self.found.update(cleaned.kinds)
        return cleaned.text

    def _key(self, name: Any) -> Any:
        # a text as a key: what a program counted, or a table's column
        return self.clean_text(name) if isinstance(name, str) and len(name) >= SHORTEST_VALUE else name

    def _item(self, parent: Mapping[Any, Any], name: Any, item: Any) -> Any:
        if isinstance(item, str) and isinstance(name, str):
            if is_encoded_image(parent, name):
                return item
            if is_secret_name(name):
                from cellwright.redaction.named_secrets import fits_name  # its patterns take 20 ms to compile

                if fits_name(name, item):
                    kind = "password or key"
                    self.found[kind] += 1
                    return removed(kind)
        return self.clean(item)


def is_encoded_image(parent: Mapping[Any, Any], name: str) -> bool:
    """Return whether the text under `name` is an image's bytes: Base64 has all letters, and no secret to be found."""
    if name == "data" and parent.get("type") == "base64":
        return True
    return name.startswith("image/") and not name.startswith("image/svg")


def removed(kind: str) -> str:
    """The mark in a secret's place."""
    return f"[secret removed: {kind}]"


@functools.cache
def all_kinds() -> tuple[SecretKind, ...]:
    """The table: every kind of secret that is looked for. The first call imports it."""
    from cellwright.redaction.named_secrets import COMMANDS, NAMED
    from cellwright.redaction.secret_kinds import LOOKS

    return (*LOOKS, *COMMANDS, *NAMED)


def looks_secret(value: str) -> bool:
    """Return whether a whole value is a key, a token, or an address with a password, or has one in it.

    A value that begins as a service's keys do counts, however it continues.
    """
    from cellwright.redaction.secret_kinds import KEY_FORMATS, SearchedText, has_password_in_address

    if _WEB_TOKEN.match(value) or has_password_in_address(value) or "PRIVATE KEY-----" in value:
        return True
    prefixes = (hint for kind in KEY_FORMATS if kind.at_hints for hint in kind.hints if value.startswith(hint))
    if any(_TOKEN_REST.fullmatch(value, len(prefix)) for prefix in prefixes):
        return True
    searched = SearchedText(value)
    return any(any(kind.matches(searched)) for kind in all_kinds())


@functools.lru_cache(maxsize=1024)
def is_secret(name: str, value: str = "") -> bool:
    """Return whether a variable or setting is a secret: by its name, or because its value looks like one.

    The address of a proxy keeps its password: without it, nothing behind the proxy is reached.
    """
    from cellwright.redaction.secret_kinds import has_password_in_address  # not needed for a name alone

    if is_secret_name(name):
        return True
    return looks_secret(value) and not (name.lower().endswith("_proxy") and has_password_in_address(value))


def redaction_of(environ: Mapping[str, str]) -> Redaction:
    """A redaction that knows the secrets of `environ`, as they are at each search."""
    return Redaction(lambda: secret_values(environ))


def secret_values(environ: Mapping[str, str]) -> dict[str, str]:
    """The values of `environ` that are secret, by name: not all that children do not get is."""
    found = {name: value for name, value in environ.items() if is_secret(name, value)}
    # the password of an address stands alone, too
    for name, value in [*found.items()]:
        if (password := _password_in(value)) and password not in found.values():
            found[f"{name} (password)"] = password
    return found


def _password_in(address: str) -> str:
    if "://" not in address or "@" not in address:
        return ""
    try:
        return unquote(urlsplit(address).password or "")
    except ValueError:
        return ""


def is_distinctive(value: str, name: str = "") -> bool:
    """Return whether an environment value can be redacted by itself: a word or a folder stands everywhere."""
    if value.startswith(("/", "~", ".")) and not any(c in value for c in "+="):
        return False
    if len(set(value)) <= 3 or (value.isalpha() and len(value) < LONG_VALUE) or (value.isdigit() and len(value) < 12):
        return False
    # six characters are enough under a name that leaves no doubt
    return len(value) >= (6 if is_always_secret(name) else SHORTEST_VALUE)


def _removed_span(kind: SecretKind, match: re.Match[str]) -> tuple[int, int]:
    if "secret" in kind.pattern.groupindex:
        return match.span("secret")
    # some patterns end early: what follows and still looks like the token belongs to it
    rest = _REST_OF_TOKEN.match(match.string, match.end())
    return match.start(), rest.end() if rest else match.end()


def replaced_in_words(kinds: Mapping[str, int]) -> str:
    """Count what was replaced: `3 secrets replaced: 2 GitHub tokens, 1 password`; "" if nothing was."""
    if not kinds:
        return ""
    ordered = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{count:,} {kind if count == 1 else _plural(kind)}" for kind, count in ordered)
    return f"{counted(sum(kinds.values()), 'secret')} replaced: {listed}"


def _plural(kind: str) -> str:
    head, rest = (kind, "")
    for word in (" in ", " on ", " of "):
        before, found, after = kind.partition(word)
        if found:
            head, rest = before, found + after
            break
    return " or ".join(f"{part}s" for part in head.split(" or ")) + rest
