"""The log of the process on stderr, without secrets: `--verbose`."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping

from cellwright.text import lazy_pattern

_SECRET_NAME = lazy_pattern(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_SECRET = lazy_pattern(r"sk-ant-[\w-]+|(?<=Bearer )[^\s'\"]+")
_MIN_CHARS = 8
"""Shorter values stand in too many other words."""


class Redacting(logging.Formatter):
    """Takes out what looks like a credential, and the values of the environment's secrets wherever they stand."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        values = {value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= _MIN_CHARS}
        self._values = sorted(values, key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        for value in self._values:
            text = text.replace(value, "[redacted]")
        return _SECRET.sub("[redacted]", text)


def log_to_stderr(environ: Mapping[str, str]) -> None:
    """Show everything that is logged, by us and by the libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Redacting(environ))
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])
