"""Who may let secrets go to Claude: the user, unless the administrator says otherwise; never a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellwright.config.settings.settings import load_settings


def write(file: Path, redacts: bool | None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({} if redacts is None else {"cellwright": {"redactSecrets": redacts}}), "utf-8")


@pytest.mark.parametrize(
    ("managed", "user", "local", "project", "redacts"),
    [
        (None, None, None, None, True),
        (None, False, None, None, False),
        (None, None, False, False, True),
        (True, False, False, False, True),
        (False, True, None, None, False),
    ],
)
def test_where_it_counts(
    tmp_path: Path, managed: bool | None, user: bool | None, local: bool | None, project: bool | None, redacts: bool
) -> None:
    home, folder = tmp_path / "home", tmp_path / "project"
    write(tmp_path / "managed" / "managed-settings.json", managed)
    write(home / ".claude" / "settings.json", user)
    write(folder / ".claude" / "settings.json", project)
    write(folder / ".claude" / "settings.local.json", local)
    environ = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright")}
    assert load_settings(folder, environ, managed=tmp_path / "managed").redact_secrets is redacts
