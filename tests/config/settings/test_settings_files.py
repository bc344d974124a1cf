"""Whatever stands in a settings file: reading it never fails, and an untrusted folder never gains by it."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.config.settings.known_settings import KEYS
from cellwright.config.settings.settings import load_settings
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.permissions.modes import MODES

NAMES = sorted({name for path in KEYS for name in path} | {"PreToolUse", "matcher", "command", "x", ""})
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from([*MODES, "auto", "disable", "Bash(rm *)", "Bash(", "mcp__*", "Read(/**)", "never", "5m", "\ud800"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
KNOWN = st.fixed_dictionaries(
    {},
    optional={
        "permissions": st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5) | VALUES,
        "hooks": st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3) | VALUES,
        "env": st.dictionaries(st.text(max_size=8), SCALARS, max_size=3) | VALUES,
        "cellwright": VALUES,
        **{path[0]: VALUES for path in KEYS if len(path) == 1 and path[0] not in ("hooks", "env")},
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shared=KNOWN, local=KNOWN, users=KNOWN)
def test_any_content_is_read_and_an_untrusted_folder_only_restricts(tmp_path_factory, shared, local, users):
    place = tmp_path_factory.mktemp("place")
    home, project = place / "home", place / "project"
    for folder in (home, project):
        (folder / ".claude").mkdir(parents=True)
    environ, nothing = {"HOME": str(home), "PATH": ""}, place / "nothing"
    write(home / ".claude" / "settings.json", users)
    alone = load_settings(project, environ, managed=nothing)
    write(project / ".claude" / "settings.json", shared)
    write(project / ".claude" / "settings.local.json", local)
    in_force = SettingsInForce(project, environ, managed=nothing)
    found = in_force.settings
    assert set(map(str, found.allow)) <= set(map(str, alone.allow))
    assert set(map(str, found.deny)) >= set(map(str, alone.deny))
    assert set(map(str, found.ask)) >= set(map(str, alone.ask))
    assert MODES.index(found.default_mode) <= MODES.index(alone.default_mode)
    for name in ("env", "hooks", "api_key_helper", "additional_directories", "model", "disable_all_hooks", "tool_log"):
        assert getattr(found, name) == getattr(alone, name)
    while (question := in_force.question()) is not None:
        assert question.detail
        in_force.answer(question, yes=True)
    assert in_force.settings.default_mode != "bypassPermissions" or alone.default_mode == "bypassPermissions"


def write(file: Path, content: object) -> None:
    file.write_text(json.dumps(content), "utf-8")
