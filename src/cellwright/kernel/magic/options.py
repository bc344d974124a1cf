"""The options of a `%%claude`, as `line` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from cellwright.config.settings.option_table import How, OutputFormat


class MagicOptions(Struct, frozen=True, kw_only=True):
    """The options of one `%%claude`. None: as `%config Claude` or the settings say.

    `run` has those that any prompt may have, by their names in the table of options; files are named, and not read yet.
    """

    run: Mapping[str, Any] = field(default_factory=dict)
    new: bool = False
    resume: str | None = None
    quiet: bool = False
    format: OutputFormat = "text"
    out: str | None = None
    schema: str | None = None
    dry_run: bool = False
    record: str | None = None
    replay: str | None = None
    recording: str | None = None
    context: How = "auto"
    background: bool = False
    notebook: str | None = None
