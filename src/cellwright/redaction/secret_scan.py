"""Secrets found in text and replaced by a marker, before the text is written anywhere.

Three nets: the values of the environment whose names say that they are secret, the patterns of `detect-secrets` (its
regular expressions alone: its own scan may ask the service in question whether a secret is valid), a few of our own.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from typing import Any

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.text import lazy_pattern

_SECRET_NAME = lazy_pattern(r"key|token|secret|passw|credential", re.IGNORECASE)
_SHORTEST_VALUE = 8

_REST_OF_TOKEN = lazy_pattern(r"(?<=[\w.])[\w+/=.-]*")

_OWN_PATTERNS = {
    "Anthropic API Key": r"sk-ant-[\w-]{8,}",
    "Private Key": r"-----BEGIN[A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END[A-Z ]*PRIVATE KEY-----|\Z)",
    "Authorization": r"(?i:\b(?:bearer|basic)\s+)(?P<secret>[\w+/=.~-]{16,})",
    "Environment Variable": r"(?m:^[\s\d]*(?:export\s+)?[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)[A-Z0-9_]*=)"
    r"(?P<secret>[^\s'\"]{8,}|'[^']+'|\"[^\"]+\")",
}

# its findings are no secrets (addresses), or mostly checksums and images (entropy)
_LEFT_OUT = {"IPPublicDetector", "Base64HighEntropyString", "HexHighEntropyString"}


def require_detect_secrets() -> None:
    """CellwrightError when the scanner is not installed, saying how to get it."""
    if importlib.util.find_spec("detect_secrets") is None:
        message = "What is recorded is searched for secrets first, and the scanner is not installed. "
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message + "Install it: pip install detect-secrets")


class SecretScan:
    """Replaces secrets by a marker; `found` counts them by kind."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        # heavy (0.3 s): only who records needs it
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
        from detect_secrets.plugins.base import RegexBasedDetector
        from detect_secrets.plugins.keyword import QUOTES_REQUIRED_DENYLIST_REGEX_TO_GROUP

        self.found: dict[str, int] = {}
        self._patterns = [(kind, re.compile(pattern)) for kind, pattern in _OWN_PATTERNS.items()]
        detectors: dict[str, Any] = get_mapping_from_secret_type_to_class()
        for kind, detector in detectors.items():
            if issubclass(detector, RegexBasedDetector) and detector.__name__ not in _LEFT_OUT:
                self._patterns += [(kind, pattern) for pattern in detector().denylist]
        self._keywords = QUOTES_REQUIRED_DENYLIST_REGEX_TO_GROUP
        values = {
            value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_VALUE
        }
        if values:
            alternatives = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
            self._patterns.insert(0, ("Secret of the environment", re.compile(alternatives)))

    def clean(self, value: Any) -> Any:
        """`value` (JSON) with the secrets in its strings replaced. Encoded images are left alone."""
        if isinstance(value, str):
            return self.clean_text(value)
        if isinstance(value, Mapping):
            encoded = value.get("type") == "base64"
            return {k: v if encoded or k.startswith("image/") else self.clean(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(item) for item in value]
        return value

    def clean_text(self, text: str) -> str:
        """`text` with the secrets in it replaced."""
        spans = sorted({*self._pattern_spans(text), *self._keyword_spans(text)})
        pieces: list[str] = []
        end = 0
        for start, stop, kind in spans:
            if stop <= end:
                continue  # inside of one that was replaced
            pieces += [text[end:start], f"[{kind} removed]"] if start >= end else []
            self.found[kind] = self.found.get(kind, 0) + (start >= end)
            end = stop
        return "".join([*pieces, text[end:]])

    def _pattern_spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        for kind, pattern in self._patterns:
            for match in pattern.finditer(text):
                start, stop = match.span("secret" if "secret" in pattern.groupindex else 0)
                # some patterns end early: what follows and still looks like the token belongs to it
                rest = _REST_OF_TOKEN.match(text, stop)
                yield start, rest.end() if rest else stop, kind

    def _keyword_spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        offset = 0
        for line in text.splitlines(keepends=True):
            if _SECRET_NAME.search(line) or "pwd" in line.lower():
                for pattern, group in self._keywords.items():
                    for match in pattern.finditer(line):
                        start, stop = match.span(group)
                        if stop - start >= 4 and not match.group(group).startswith(("{", "<", "$", "%")):
                            yield offset + start, offset + stop, "Secret Keyword"
            offset += len(line)
