"""Which of several places that say a setting counts, what a broken entry costs, and that each value knows its origin."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import cellwright.config
from cellwright.config.settings.known_settings import KEYS
from cellwright.config.settings.layers import SCOPES, Layer, entries_of
from cellwright.config.settings.settings_files import read_all, start_folder, watched_files
from cellwright.errors import CellwrightError, ErrorCode
from row_tables import for_each_row

HERE = Path("/")
FILES = ("user", "project", "local", "managed")
PRECEDENCE = ("environment", "user", "project", "local", "config", "options", "managed")


def layer(scope):
    return Layer(scope=scope, label=scope, root=HERE, folder=HERE)


@pytest.mark.parametrize(("lower", "higher"), [*itertools.pairwise(PRECEDENCE)])
def test_the_higher_place_counts(place, lower, higher):
    assert PRECEDENCE == SCOPES
    for scope in (higher, lower):  # the order of reading is not the order of counting
        if scope in FILES:
            place.say(scope, model=f"from {scope}")
        elif scope == "environment":
            place.environ["ANTHROPIC_MODEL"] = "from environment"
        else:
            place.given.append((layer(scope), {"model": f"from {scope}"}))
    place.trust()
    settings = place.in_force().settings
    assert settings.model == f"from {higher}"
    origin = settings.origin("model")
    assert (origin.value, origin.scope) == (f"from {higher}", higher)
    assert (origin.file == place.file(higher)) is (higher in FILES)
    assert [each.scope for each in settings.origins("model")] == [lower, higher]


def test_a_value_that_nobody_says_has_no_origin(place):
    settings = place.load()
    assert settings.origin("model") is None
    assert settings.origins("permissions.allow") == ()
    assert settings.model is None


def test_lists_are_joined_without_repetition_and_each_element_knows_its_file(place):
    place.say("user", permissions={"allow": ["Bash(a)", "Bash(b)"]}, deniedModels=["opus"])
    place.say("local", permissions={"allow": ["Bash(c)"]}, deniedModels=["haiku", "opus"])
    place.trust()
    settings = place.load()
    assert settings.denied_models == ("opus", "haiku")
    assert [(each.value, each.scope) for each in settings.origins("permissions.allow")] == [
        ("Bash(a)", "user"),
        ("Bash(b)", "user"),
        ("Bash(c)", "local"),
    ]


def test_objects_are_merged_at_every_depth(place):
    place.say("user", env={"A": "user", "B": "user"}, sandbox={"network": {"x": 1, "y": 1}, "enabled": True})
    place.say("local", env={"B": "local", "C": "local"}, sandbox={"network": {"y": 2}})
    place.trust()
    settings = place.load()
    assert settings.env == {"A": "user", "B": "local", "C": "local"}
    assert settings.origin("env.B").scope == "local"
    assert settings.merged.value("sandbox") == {"network": {"x": 1, "y": 2}, "enabled": True}


def test_the_exceptions_among_lists(place):
    place.say("user", fallbackModel=["a"], availableModels=["sonnet", "opus"])
    place.say("managed", fallbackModel=["b"], availableModels=["haiku"])
    settings = place.load()
    assert settings.merged.value("fallbackModel") == ["b"]
    assert settings.available_models == ("haiku",)
    place.say("managed", fallbackModel="c, d")
    assert place.load().fallback_models == ("c", "d")
    place.say("managed", fallbackModel=[])
    assert place.load().merged.value("fallbackModel") == []
    assert place.load().available_models == ("sonnet", "opus")


def test_an_empty_list_is_not_the_same_as_none(place):
    assert place.load().available_models is None
    place.say("user", availableModels=[], allowedHttpHookUrls=[])
    settings = place.load()
    assert (settings.available_models, settings.allowed_http_hook_urls) == ((), ())


def test_hooks_of_all_files_stay_apart_and_in_order(place):
    def hook(name):
        return {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": name}]}]}

    for where in FILES:
        place.say(where, hooks=hook(where))
    place.trust()
    found = place.load().hooks
    assert [(each.scope, each.file) for each in found] == [(where, place.file(where)) for where in FILES]
    assert found[0].events == hook("user")


def test_the_administrators_files_go_in_order(place):
    place.say("managed", model="main", permissions={"deny": ["Bash"]})
    drop_ins = place.managed / "managed-settings.d"
    drop_ins.mkdir()
    (drop_ins / "20-b.json").write_text('{"model": "second"}', "utf-8")
    (drop_ins / "10-a.json").write_text('{"model": "first", "permissions": {"deny": ["Python"]}}', "utf-8")
    (drop_ins / ".hidden.json").write_text('{"model": "no"}', "utf-8")
    (drop_ins / "readme.txt").write_text("no", "utf-8")
    settings = place.load()
    assert settings.model == "second"
    assert [str(rule) for rule in settings.deny] == ["Bash", "Python"]


@pytest.mark.parametrize(
    ("user", "managed", "expected"),
    [
        (None, "acceptEdits", "acceptEdits"),
        ("plan", "acceptEdits", "plan"),
        ("acceptEdits", "default", "default"),
        ("acceptEdits", "bypassPermissions", "acceptEdits"),
    ],
)
def test_the_administrators_mode_is_as_far_as_one_may_go(place, user, managed, expected):
    if user:
        place.write("user", {"defaultMode": user})
    place.write("managed", {"defaultMode": managed})
    assert place.load().default_mode == expected


def test_bypassing_can_be_switched_off_from_anywhere(place):
    place.write("user", {"defaultMode": "bypassPermissions"})
    assert place.load().default_mode == "bypassPermissions"
    place.write("project", {"disableBypassPermissionsMode": "disable"})
    settings = place.load()
    assert (settings.default_mode, settings.bypass_disabled) == ("default", True)
    assert "disableBypassPermissionsMode" in settings.notices[-1]


def test_the_administrators_alone_restrict_hooks_to_theirs(place):
    place.say("user", allowManagedHooksOnly=True)
    settings = place.load()
    assert not settings.allow_managed_hooks_only
    assert "only the administrator" in settings.notices[0]
    place.say("managed", allowManagedHooksOnly=True)
    assert place.load().allow_managed_hooks_only


def test_blocks_hold_from_any_place(place):
    place.write("user", {"blockReadsOutsideWorkingDirectories": True})
    place.write("project", {"blockReadsOutsideWorkingDirectories": False, "blockWritesOutsideWorkingDirectories": True})
    settings = place.load()
    assert (settings.block_reads_outside, settings.block_writes_outside) == (True, True)


def test_numbers_of_the_environment(place):
    settings = place.load(
        CELLWRIGHT_WEB_FETCH_TIMEOUT="5", CELLWRIGHT_MAX_FILE_SIZE="2000", CELLWRIGHT_CACHE_TTL="soon"
    )
    assert (settings.web_fetch_timeout, settings.max_file_size, settings.cache_ttl) == (5.0, 2000, 900.0)
    assert "CELLWRIGHT_CACHE_TTL" in settings.notices[0]


@pytest.mark.parametrize(("value", "seconds"), [("never", None), ("90s", 90), ("5m", 300), (45, 45.0), (None, None)])
def test_waiting_for_an_answer(place, value, seconds):
    place.say("user", **({} if value is None else {"askUserQuestionTimeout": value}))
    assert place.load().ask_user_question_seconds == seconds


def test_a_broken_entry_is_named_and_the_rest_is_kept(place):
    place.say(
        "user",
        model=7,
        effortLevel="enormous",
        language="Deutsch",
        env={"GOOD": "1", "BAD": 1},
        deniedModels=["opus", 5],
        hooks={"Stop": [{"hooks": []}, "echo"], "PreToolUse": "no"},
        bashOutputMaxChars=10,
        cellwright="x",
        respectGitignore=False,
    )
    settings = place.load()
    assert (settings.model, settings.effort, settings.language) == (None, None, "Deutsch")
    assert settings.env == {"GOOD": "1"}
    assert settings.denied_models == ("opus",)
    assert settings.hooks[0].events == {"Stop": [{"hooks": []}]}
    assert settings.respect_gitignore is False
    told = "\n".join(settings.notices)
    for name in (
        "`model`",
        "`effortLevel`",
        "`env.BAD`",
        "deniedModels: 5",
        "hooks.Stop",
        "`hooks.PreToolUse`",
        "`cellwright`",
    ):
        assert name in told
    assert str(place.file("user")) in told
    assert settings.default_mode == "default"


@for_each_row(
    ("key", "meant"),
    [
        ("permisions.deny", "permissions.deny"),
        ("Permissions.deny", "permissions.deny"),
        ("permissions.denied", "permissions.deny"),
        ("hook.PreToolUse", "hooks.PreToolUse"),
        ("sandbox.enable", "sandbox.enabled"),
        # what restricts nothing is Claude Code's, or nobody's: no prompt speaks of it
        ("permissions.alow", ""),
        ("permissions.disableAutoMode", ""),
        ("sandbox.network.allowUnixSockets", ""),
        ("statusLine.command", ""),
    ],
)
def test_a_misspelt_restriction_is_named_with_what_was_meant(key, meant):
    values: object = ["Read(./.env)"]
    for name in reversed(key.split(".")):
        values = {name: values}
    problems = entries_of(layer("user"), values).problems
    assert [problem.partition("Did you mean ")[2] for problem in problems] == ([f"`{meant}`?"] if meant else [])
    assert all(f"`{key}` is not known" in problem for problem in problems)


def test_a_home_that_nobody_has_is_named_and_the_rest_is_kept(place):
    nobody = "~no-such-user/x"
    place.say(
        "user",
        plansDirectory=nobody,
        cellwright={"toolLog": nobody},
        permissions={"additionalDirectories": [nobody, "~/there"], "deny": ["Python"]},
    )
    settings = place.load()
    assert (settings.plans_directory, settings.tool_log) == (None, None)
    assert settings.additional_directories == (place.home / "there",)
    assert [str(rule) for rule in settings.deny] == ["Python"]
    assert len(settings.notices) == 3
    assert all("`~no-such-user`" in notice for notice in settings.notices)


def test_a_base_path_in_a_home_that_nobody_has_is_named():
    with pytest.raises(CellwrightError) as caught:
        start_folder({"CELLWRIGHT_BASE_PATH": "~no-such-user/x"})
    assert caught.value.code == ErrorCode.CONFIG_INVALID
    assert "'~no-such-user/x'" in caught.value.message


def test_a_variable_that_no_program_could_be_started_with_is_left_out_alone(place):
    place.say("user", env={"GOOD": "é=1", "A=B": "x", "": "x", "C\0": "x", "D": "x\0", "E": "\ud800"})
    settings = place.load()
    assert settings.env == {"GOOD": "é=1"}
    assert len(settings.notices) == 5
    subprocess.run(["true"], env=settings.env, check=True, executable=shutil.which("true"))


def test_what_is_not_known_is_kept_quietly(place):
    place.say("user", outputStyle="Concise", tui={"deep": {"deeper": [1, {"x": 2}]}}, hooks={"NoSuchEvent": []})
    settings = place.load()
    assert settings.notices == ()
    assert settings.merged.value("tui") == {"deep": {"deeper": [1, {"x": 2}]}}
    assert settings.origin("outputStyle").value == "Concise"


def test_an_object_of_any_depth_ends_nothing(place):
    place.write_text("user", '{"a":' * 900 + "1" + "}" * 900)
    assert place.load().deny == ()


def test_settings_of_the_folder_that_is_started_in_count_besides_the_projects(place):
    place.git("init")
    place.write("project", {"deny": ["Bash"]})
    sub = place.project / "sub" / ".claude"
    sub.mkdir()
    (sub / "settings.json").write_text('{"permissions": {"deny": ["Edit(/x)"]}}', "utf-8")
    rules = place.load(place.project / "sub").deny
    assert [(str(rule), rule.source_root) for rule in rules] == [
        ("Bash", str(place.project)),
        ("Edit(/x)", str(place.project / "sub")),
    ]


def test_every_file_that_is_read_is_watched(place):
    place.git("init")
    for where in FILES:
        place.say(where, model="x")
    tools = place.project / ".claude" / "tools"
    tools.mkdir()
    (tools / "a.py").write_text("", "utf-8")
    watched = set(watched_files(place.project, place.environ, place.managed))
    reading = read_all(place.project, place.environ, managed=place.managed)
    assert {entry.layer.file for entry in reading.entries} <= watched
    assert {tools / "a.py", tools} <= watched


SCHEMA = json.loads((Path(cellwright.config.__file__).parent / "settings" / "settings.schema.json").read_text("utf-8"))

VALID = [
    {},
    {
        "permissions": {
            "allow": ["Bash(git log *)", "Read(~/x/**)"],
            "deny": ["mcp__*"],
            "ask": ["WebFetch(domain:a.b)"],
        }
    },
    {"permissions": {"defaultMode": "plan", "additionalDirectories": ["../x"], "unknown": 1}},
    {"env": {"A": ""}, "model": "opus", "effortLevel": "max", "availableModels": []},
    {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "x"}]}], "Stop": []}},
    {"askUserQuestionTimeout": "5m", "bashOutputMaxChars": 30_000, "cleanupPeriodDays": 0},
    {"promptCacheTtl": "1h", "fallbackModel": "sonnet"},
    {"fallbackModel": ["sonnet", "haiku"]},
    {"theme": "dark-ansi", "cellwright": {"theme": "high-contrast", "layout": "compact"}},
    {"askUserQuestionTimeout": 60.5, "cellwright": {"toolLog": "log", "cacheTtl": 0.5, "maxFileSize": 5000}},
    {"sandbox": {"enabled": True, "excludedCommands": ["docker *"], "filesystem": {"denyRead": ["~/x"]}}},
    {"sandbox": {"network": {"allowedDomains": ["a.example", "*.b.example:443", "localhost:8080"]}}},
    {"disableAllHooks": False, "allowedHttpHookUrls": ["https://a/*"], "somethingNew": {"x": [1]}},
]
INVALID = [
    {"permissions": []},
    {"permissions": {"defaultMode": "yolo"}},
    {"permissions": {"deny": ["Bash("]}},
    {"permissions": {"allow": [7]}},
    {"permissions": {"ask": {}}},
    {"permissions": {"additionalDirectories": [1]}},
    {"permissions": {"disableBypassPermissionsMode": True}},
    {"permissions": {"blockReadsOutsideWorkingDirectories": "yes"}},
    {"env": {"A": 1}},
    {"env": []},
    {"env": {"A=B": "x"}},
    {"env": {"": "x"}},
    {"env": {"A": "x\0y"}},
    {"plansDirectory": "a\0b"},
    {"model": ""},
    {"model": ["opus"]},
    {"effortLevel": "highest"},
    {"availableModels": "opus"},
    {"fallbackModel": ""},
    {"hooks": []},
    {"hooks": {"Stop": {}}},
    {"hooks": {"Stop": [{"matcher": "x"}]}},
    {"disableAllHooks": 1},
    {"promptCacheTtl": "2h"},
    {"cellwright": {"theme": "pink"}},
    {"cellwright": {"layout": "tiny"}},
    {"bashOutputMaxChars": 5},
    {"bashOutputMaxChars": 5000.5},
    {"askUserQuestionTimeout": "soon"},
    {"askUserQuestionTimeout": 0},
    {"cleanupPeriodDays": -1},
    {"sandbox": True},
    {"sandbox": {"enabled": "yes"}},
    {"sandbox": {"filesystem": []}},
    {"sandbox": {"filesystem": {"denyRead": "~/x"}}},
    {"sandbox": {"filesystem": {"denyWrite": [""]}}},
    {"sandbox": {"network": {"deniedDomains": [7]}}},
    {"cellwright": []},
    {"cellwright": {"cacheTtl": 0}},
    {"cellwright": {"toolLog": ""}},
]


@for_each_row("content", [*VALID, *INVALID], ids=json.dumps)
def test_the_schema_and_the_reader_agree(place, content):
    valid = content in VALID
    assert Draft202012Validator(SCHEMA).is_valid(content) is valid
    place.write_text("user", json.dumps(content))
    assert (place.load().notices == ()) is valid


def test_the_schema_names_every_key_that_is_read():
    def described(path):
        found = SCHEMA
        for name in path:
            found = found["properties"][name]
        return found

    for path in KEYS:
        assert described(path)
    known = {path[0] for path in KEYS}
    assert set(SCHEMA["properties"]) == known


def test_the_same_value_of_the_same_file_has_one_id_and_others_have_others():
    said = {"env": {"A": "1", "B": "1"}, "model": "1", "permissions": {"deny": ["A", "B"], "allow": ["A"]}}
    entries = entries_of(layer("user"), said).entries
    assert len({entry.id for entry in entries}) == len(entries) == 6
    assert [entry.id for entry in entries_of(layer("user"), said).entries] == [entry.id for entry in entries]


def test_the_document_names_every_key():
    document = (Path(__file__).parents[3] / "docs" / "settings.md").read_text("utf-8")
    for path in KEYS:
        assert f"`{path[-1]}`" in document or f"`{'.'.join(path)}`" in document
