"""The log of the process on stderr, without secrets: `--verbose`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from cellwright.redaction.redaction import redaction_of


class Redacting(logging.Formatter):
    """Takes out what looks like a secret, and the values of the environment's secrets wherever they stand."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redaction = redaction_of(environ)

    def format(self, record: logging.LogRecord) -> str:
        return self._redaction.clean(super().format(record)).text


def log_to_stderr(environ: Mapping[str, str]) -> None:
    """Show everything that is logged, by us and by the libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Redacting(environ))
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])
