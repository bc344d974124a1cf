"""What is read from the settings files, what is believed, and how a rule is kept."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Allow, keep_rules
from cellwright.config.settings.edit import with_allow_rule
from cellwright.config.settings.settings import save_allow_rules
from cellwright.errors import CellwrightError, ErrorCode
from declared_tools import tool_named
from row_tables import for_each_row


def texts(rules) -> list[str]:
    return [str(rule) for rule in rules]


def test_nothing_settled_is_the_default(place):
    settings = place.load()
    assert settings.default_mode == "default"
    assert (settings.deny, settings.ask, settings.allow, settings.notices) == ((), (), (), ())
    assert settings.project == place.project
    assert not (place.project / ".claude").exists()


def test_lists_of_all_files_are_joined(place):
    place.write("user", {"deny": ["Read(.env)"], "ask": ["Bash(a *)"], "allow": ["Bash(b)"]})
    place.write("project", {"deny": ["Bash(rm *)"], "ask": ["Python"]})
    place.write("local", {"deny": ["Bash(mv *)"], "allow": ["Bash(c)"]})
    place.trust()
    settings = place.load()
    assert texts(settings.deny) == ["Read(.env)", "Bash(rm *)", "Bash(mv *)"]
    assert texts(settings.ask) == ["Bash(a *)", "Python"]
    assert texts(settings.allow) == ["Bash(b)", "Bash(c)"]
    assert settings.notices == ()


def test_the_slash_of_a_rule_starts_at_its_file(place):
    place.git("init")
    for where in ("user", "project", "local"):
        place.write(where, {"deny": ["Edit(/x)"]})
    roots = [rule.source_root for rule in place.load(place.project / "sub").deny]
    assert roots == [str(place.home / ".claude"), str(place.project), str(place.project / "sub")]


def test_the_project_is_the_root_of_the_work_tree(place):
    place.git("init")
    place.write("project", {"deny": ["Python"]})
    settings = place.load(place.project / "sub")
    assert settings.project == place.project
    assert texts(settings.deny) == ["Python"]


def test_a_folder_that_cannot_be_looked_into_is_a_project_of_its_own(place):
    place.say("user", language="Deutsch")
    folder = place.project / ("x" * 300)  # as good as one below somebody else's, which root may enter
    settings = place.load(folder)
    assert (settings.project, settings.language) == (folder, "Deutsch")
    assert all("cannot be read" in notice for notice in settings.notices)


def test_the_users_folder_can_be_elsewhere(place, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.json").write_text('{"permissions": {"allow": ["Python"]}}', "utf-8")
    place.write("user", {"allow": ["Bash(x)"]})
    assert texts(place.load(CLAUDE_CONFIG_DIR=str(tmp_path / "config")).allow) == ["Python"]


@pytest.mark.parametrize(
    ("user", "project", "local", "expected"),
    [
        (None, None, None, "default"),
        ("acceptEdits", None, None, "acceptEdits"),
        ("bypassPermissions", None, None, "bypassPermissions"),
        ("manual", None, None, "default"),
        ("auto", None, None, "default"),
        ("nonsense", None, None, "default"),
        (17, None, None, "default"),
        # a project may only make it stricter (CVE-2026-33068)
        (None, "bypassPermissions", None, "default"),
        (None, "acceptEdits", None, "default"),
        ("acceptEdits", "bypassPermissions", None, "acceptEdits"),
        ("acceptEdits", "default", None, "default"),
        ("acceptEdits", "plan", None, "plan"),
        ("plan", "default", None, "plan"),
        (None, "dontAsk", None, "dontAsk"),
        (None, "auto", None, "default"),
        # the user's own file for the project has the last word
        (None, None, "acceptEdits", "acceptEdits"),
        ("plan", None, "acceptEdits", "acceptEdits"),
        (None, "plan", "default", "default"),
        (None, None, "bypassPermissions", "default"),
    ],
)
def test_modes(place, user, project, local, expected):
    for where, mode in (("user", user), ("project", project), ("local", local)):
        if mode is not None:
            place.write(where, {"defaultMode": mode, "allow": ["Python"]})
    place.trust()
    settings = place.load()
    assert settings.default_mode == expected
    looser = (
        "bypassPermissions" in (project, local) or project == "acceptEdits" or (user, project) == ("plan", "default")
    )
    assert bool(settings.notices) is (looser or "auto" in (user, project) or user in ("nonsense", 17))


@pytest.mark.parametrize("trusted", [False, True])
def test_a_project_sets_no_looser_mode(place, trusted):
    place.write("project", {"allow": ["Bash"], "additionalDirectories": ["/"], "defaultMode": "bypassPermissions"})
    if trusted:
        place.trust()
    settings = place.load()
    assert (bool(settings.allow), bool(settings.additional_directories)) == (trusted, trusted)
    assert settings.default_mode == "default"
    assert settings.origin("permissions.defaultMode") is None
    assert "cannot set it" in settings.notices[0]


@pytest.mark.parametrize(
    "how", ["tracked", "tracked in another case", "linked file", "linked folder", "unreadable index"]
)
def test_local_settings_that_came_with_the_project_count_like_the_projects(place, tmp_path, how):
    place.git("init")
    file = place.write("local", {"allow": ["Bash"], "deny": ["Python"], "additionalDirectories": ["/"]})
    if how.startswith("tracked"):
        place.git("add", "-f", ".claude/settings.local.json")
        if how == "tracked in another case":
            place.git("mv", "-f", ".claude/settings.local.json", ".claude/Settings.Local.json")
            place.write("local", {"allow": ["Bash"], "deny": ["Python"], "additionalDirectories": ["/"]})
    elif how == "linked file":
        file.rename(tmp_path / "elsewhere.json")
        file.symlink_to(tmp_path / "elsewhere.json")
    elif how == "linked folder":
        file.parent.rename(tmp_path / "elsewhere")
        (place.project / ".claude").symlink_to(tmp_path / "elsewhere")
    else:
        (place.project / ".git" / "index").write_bytes(b"broken")
    settings = place.load()
    assert (settings.allow, settings.additional_directories) == ((), ())
    assert texts(settings.deny) == ["Python"]
    with pytest.raises(CellwrightError, match=r"settings\.local\.json") as caught:
        save_allow_rules(place.project, ["Bash(x)"], place.environ)
    assert caught.value.code == ErrorCode.CONFIG_INVALID


def test_local_settings_of_a_trusted_folder_are_believed(place):
    place.git("init")
    place.write("local", {"allow": ["Bash(x)"], "additionalDirectories": ["../data", "~/other", "/abs"]})
    assert place.load(place.project / "sub").allow == ()
    place.trust()
    settings = place.load(place.project / "sub")
    assert texts(settings.allow) == ["Bash(x)"]
    assert settings.additional_directories == (place.project / "../data", place.home / "other", Path("/abs"))


def test_without_git_nothing_can_be_found_out_and_nothing_is_believed(place, tmp_path):
    place.git("init")
    place.write("local", {"allow": ["Bash(x)"]})
    assert place.load(PATH=str(tmp_path)).allow == ()


def test_asking_git_runs_nothing_of_the_repository(place, monkeypatch):
    place.git("init")
    mark = place.project / "ran"
    script = place.project / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n", "utf-8")
    script.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "diff.external"):
        place.git("config", key, str(script))
    hook = place.project / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_bytes(script.read_bytes())
    hook.chmod(0o755)
    (place.project / "git").write_bytes(script.read_bytes())
    (place.project / "git").chmod(0o755)
    place.write("local", {"allow": ["Bash(x)"]})
    place.trust()
    monkeypatch.chdir(place.project)
    mark.unlink(missing_ok=True)
    settings = place.load(PATH=os.pathsep.join([".", "", os.environ["PATH"]]))
    assert texts(settings.allow) == ["Bash(x)"]
    assert not mark.exists()


def test_a_home_that_is_the_project_has_one_file(place):
    place.write("user", {"allow": ["Bash(x)"], "defaultMode": "acceptEdits"})
    settings = place.load(place.home)
    assert texts(settings.allow) == ["Bash(x)"]
    assert settings.notices == ()


@for_each_row(
    ("content", "notice"),
    [
        ('{"permissions": {\n  "deny": ["a"\n}', "settings.json:3:1: is not JSON"),
        ("{,}", "settings.json:1:2"),
        ('{"permissions": {"deny": ["Python",]}}', "is not JSON"),
        ('// no\n{"permissions": {}}', "settings.json:1:1"),
        ("[]", "not a JSON object"),
        ('{"permissions": []}', "`permissions` is not an object"),
        ('{"x": NaN}', "NaN"),
        ('{"permissions": {"deny": ["Python"]}, "permissions": {}}', "occurs twice"),
        ("[" * 100_000, "JSON"),
        ("", "settings.json:1:1"),
    ],
)
def test_a_broken_file_is_named_with_its_place_and_the_others_hold(place, content, notice):
    place.write("project", content)
    place.write("user", {"deny": ["Bash"], "defaultMode": "bypassPermissions"})
    settings = place.load()
    assert notice in settings.notices[0]
    assert str(place.project) in settings.notices[0]
    assert texts(settings.deny) == ["Bash"]
    # it may have denied something: until it is mended nothing goes unasked
    assert texts(settings.ask) == ["*"]


def test_a_file_that_is_no_file_is_not_waited_for(place):
    file = place.write("project", "{}")
    file.unlink()
    os.mkfifo(file)
    assert "regular file" in place.load().notices[0]
    file.unlink()
    file.symlink_to("/dev/zero")
    assert "regular file" in place.load().notices[0]
    file.unlink()
    file.write_bytes(b'\xff{"permissions": {}}')
    assert "UTF-8" in place.load().notices[0]
    file.write_bytes(b'\xef\xbb\xbf{"permissions": {"deny": ["Python"]}}')
    assert texts(place.load().deny) == ["Python"]


def test_a_restriction_that_covers_more_than_it_says_is_in_force_and_told(place):
    place.write("user", {"deny": ["WebFetch(example.com)"], "ask": ["Bash(command:rm *)", "Bash(rm *)"]})
    settings = place.load()
    assert texts(settings.deny) == ["WebFetch(example.com)"]
    assert texts(settings.ask) == ["Bash(command:rm *)", "Bash(rm *)"]
    assert [("every use of WebFetch" in notice, "write `Bash(rm *)`" in notice) for notice in settings.notices] == [
        (True, False),
        (False, True),
    ]


@for_each_row(
    ("key", "entry", "deny", "ask"),
    [
        ("deny", ["Bash(rm *"], ["Bash"], []),
        ("deny", ["Read(**/../x)"], ["Read"], []),
        ("deny", ["Bash()"], ["Bash"], []),
        ("deny", ["!x"], [], ["*"]),
        ("deny", [17], [], ["*"]),
        ("deny", [None], [], ["*"]),
        ("deny", "Bash(rm *)", ["Bash(rm *)"], []),
        ("deny", {"Bash": True}, [], ["*"]),
        ("ask", ["Bash(rm *"], [], ["Bash"]),
        ("ask", [["Bash"]], [], ["*"]),
    ],
)
def test_what_was_to_restrict_and_is_not_understood_restricts(place, key, entry, deny, ask):
    place.write("project", {key: entry})
    settings = place.load()
    assert (texts(settings.deny), texts(settings.ask)) == (deny, ask)
    assert settings.notices


@for_each_row("entry", [["Bash(rm *"], [17], [None], ["* "], ["Bash(* x)"], ["Write(/x)"]])
def test_what_was_to_allow_and_is_not_understood_allows_nothing(place, entry):
    from cellwright.permissions.policy import PermissionPolicy

    place.write("user", {"allow": [*entry, "Bash(good)"]})
    settings = place.load()
    assert "Bash(good)" in texts(settings.allow)
    assert len(settings.notices) == 1
    policy = PermissionPolicy(allow=settings.allow, cwd=place.project)
    assert policy.decide(tool_named("Bash"), {"command": "rm x"}).behavior == "ask"
    assert policy.decide(tool_named("Bash"), {"command": "good"}).behavior == "allow"


LAYOUTS = [
    ("{}", '{\n  "permissions": {"allow": ["N"]}\n}'),
    ("{ }\n", '{\n  "permissions": {"allow": ["N"]}\n}\n'),
    ('{"permissions": {}}', '{"permissions": {\n  "allow": ["N"]\n}}'),
    ('{"permissions": {"allow": []}}', '{"permissions": {"allow": [\n  "N"\n]}}'),
    ('{"permissions": {"allow": ["a"]}}', '{"permissions": {"allow": ["a", "N"]}}'),
    ('{"permissions": {"allow": ["a", "b"]}, "z": 1.50}', '{"permissions": {"allow": ["a", "b", "N"]}, "z": 1.50}'),
    (
        '{\n\t"model": "x",\n\t"permissions": {\n\t\t"allow": [\n\t\t\t"a"\n\t\t],\n\t\t"deny": []\n\t}\n}\n',
        '{\n\t"model": "x",\n\t"permissions": {\n\t\t"allow": [\n\t\t\t"a",\n\t\t\t"N"\n\t\t],\n\t\t"deny": []\n\t}\n}\n',
    ),
    (
        '{\r\n  "e": "}]\\"{[",\r\n  "permissions": {\r\n    "allow": [\r\n      "a"\r\n    ]\r\n  }\r\n}',
        '{\r\n  "e": "}]\\"{[",\r\n  "permissions": {\r\n    "allow": [\r\n      "a",\r\n      "N"\r\n    ]\r\n  }\r\n}',
    ),
    (
        '{\n  "permissions": {\n    "allow": []\n  }\n}\n',
        '{\n  "permissions": {\n    "allow": [\n      "N"\n    ]\n  }\n}\n',
    ),
    (
        '{"b": [1, {"permissions": {"allow": ["x"]}}]}',
        '{"b": [1, {"permissions": {"allow": ["x"]}}], "permissions": {"allow": ["N"]}}',
    ),
]


@for_each_row(("before", "after"), LAYOUTS)
def test_a_rule_is_added_and_the_layout_stays(before, after):
    changed = with_allow_rule(before, "N")
    assert changed == after
    assert json.loads(changed)["permissions"]["allow"][-1] == "N"


def test_an_always_allow_is_read_again(place):
    place.git("init")
    rule = 'Bash(git commit -m "a (x)")'
    file = save_allow_rules(place.project, [rule], place.environ)
    assert file == place.project / ".claude" / "settings.local.json"
    save_allow_rules(place.project, [rule], place.environ)
    save_allow_rules(place.project, ["Bash(make)"], place.environ)
    assert texts(place.load().allow) == [rule, "Bash(make)"]
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name]


def test_a_rule_for_a_name_that_is_no_utf_8_is_saved_and_read_again(place):
    rules = ["Read(//tmp/a\udcff/**)", "Read(//tmp/é/**)"]
    file = save_allow_rules(place.project, rules, place.environ)
    assert texts(place.load().allow) == rules
    assert "é" in file.read_text("utf-8")


def test_what_else_stands_in_the_file_is_kept(place):
    text = '{\n    "model": "opus",\n    "permissions": {"deny": ["Python"]},\n    "hooks": {}\n}\n'
    file = place.write("local", text)
    file.chmod(0o640)
    save_allow_rules(place.project, ["Bash(make)"], place.environ)
    assert json.loads(file.read_text("utf-8")) == {
        "model": "opus",
        "permissions": {"deny": ["Python"], "allow": ["Bash(make)"]},
        "hooks": {},
    }
    assert file.read_text("utf-8").startswith('{\n    "model": "opus",\n')
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "content", ["{", '{"permissions": []}', '{"permissions": {"allow": {}}}', "[]", '{"a": 1, "a": 2}']
)
def test_a_file_that_is_not_valid_is_left_as_it_is(place, content):
    file = place.write("local", content)
    with pytest.raises(CellwrightError) as caught:
        save_allow_rules(place.project, ["Bash(make)"], place.environ)
    assert caught.value.code == ErrorCode.CONFIG_PARSE_ERROR
    assert "Bash(make)" in caught.value.message
    assert file.read_text("utf-8") == content


@pytest.mark.parametrize("rule", ["Bash(", "", "*", "Bash(* x)", "Write(/x)"])
def test_a_rule_that_allows_nothing_is_not_saved(place, rule):
    with pytest.raises(CellwrightError) as caught:
        save_allow_rules(place.project, [rule], place.environ)
    assert caught.value.code == ErrorCode.CONFIG_INVALID
    assert not (place.project / ".claude").exists()


def a_file(folder):
    folder.write_text("a file", "utf-8")


def a_pipe_in_it(folder):
    folder.mkdir()
    os.mkfifo(folder / "settings.local.json")


def a_folder_in_it(folder):
    (folder / "settings.local.json").mkdir(parents=True)


def a_loop(folder):
    folder.symlink_to(folder)


def a_dangling_link(folder):
    folder.symlink_to("nowhere")


def a_link_in_it(folder):
    folder.mkdir()
    (folder / "settings.local.json").symlink_to(folder.parent / "other.json")


def a_deep_file_in_it(folder):
    folder.mkdir()
    (folder / "settings.local.json").write_text("[" * 100_000, "utf-8")


def binary_in_it(folder):
    folder.mkdir()
    (folder / "settings.local.json").write_bytes(b"\xff\xfe{\0")


ODD = [a_file, a_pipe_in_it, a_folder_in_it, a_loop, a_dangling_link, a_link_in_it, a_deep_file_in_it, binary_in_it]


@pytest.mark.parametrize("odd", ODD, ids=[odd.__name__ for odd in ODD])
def test_an_always_that_cannot_be_saved_holds_for_the_session_and_says_why(place, odd):
    odd(place.project / ".claude")
    in_force = place.in_force()
    answer = asyncio.run(keep_rules(Allow(scope="always", rules=("Bash(make)",)), in_force.save_rules))
    assert (answer.scope, answer.rules) == ("session", ("Bash(make)",))
    assert "Bash(make)" in answer.notice
    assert "for this session" in answer.notice
    assert texts(place.load().allow) == []


def test_a_full_disk_or_a_folder_of_another_user_is_said_the_same_way(place):
    def save(_rules):
        raise OSError(28, "No space left on device")

    answer = asyncio.run(keep_rules(Allow(scope="always", rules=("Bash(make)",)), save))
    assert (answer.scope, "No space left" in answer.notice) == ("session", True)


def test_kernels_that_save_at_once_lose_no_rule(place):
    code = (
        "import sys; from pathlib import Path; from cellwright.config.settings.settings import save_allow_rules\n"
        "for n in range(5): save_allow_rules(Path(sys.argv[1]), [f'Bash(p{sys.argv[2]} {n})'])"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(place.project), str(number)], env=os.environ)
        for number in range(3)
    ]
    threads = [
        threading.Thread(target=save_allow_rules, args=(place.project, [f"Bash(t {number})"], place.environ))
        for number in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait(60) for process in started] == [0, 0, 0]
    assert len(set(texts(place.load().allow))) == 20


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_in_the_place_of_a_folders_file_is_not_waited_for(place):
    names = ["CLAUDE.md", ".mcp.json", ".claude/settings.json", ".claude/settings.local.json", ".claude/tools/t.py"]
    names += [f".claude/{each}" for each in ("agents/a.md", "skills/s/SKILL.md", "commands/c.md", "output-styles/o.md")]
    for name in names:
        (place.project / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(place.project / name)
    environ = {**os.environ, "ANTHROPIC_API_KEY": "sk-ant-none"}
    text = (
        "import cellwright\nwith cellwright.Agent(session=None) as it:\n    print(it.command('/agents').plain() != '')"
    )
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=place.project,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
