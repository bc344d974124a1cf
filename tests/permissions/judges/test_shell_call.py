"""Changes that run beside later commands ask, whatever puts them there; a link is judged where it is moved to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.permissions.shell.judged_commands import ALLOW, ASK, behavior

from cellwright.permissions.judges.shell_call import may_change_later
from declared_tools import tool_named
from row_tables import for_each_row

CHANGES = (
    "mv src/a.py src/c.py",
    "cp -a src/a.py src/c.py",
    "cp -r src/deep other",
    "rm notes.txt",
    "mkdir new",
    "touch new",
    "sed -i s/a/b/ notes.txt",
    "echo x > new",
    "cat notes.txt >> new",
)
INTO_BACKGROUND = (
    "{} &",
    "{} & echo done",
    "sleep 1 && {} &",
    "(sleep 1; {}) &",
    "{ sleep 1; {}; } &",
    "if true; then {}; fi &",
    "for i in a b; do {}; done & wait",
    "(true; ({})) & true",
    "true | {} &",
)
DETACHED_BY = ("nohup {} &", "setsid {}", "coproc {}", "nohup setsid {}", "setsid nohup {} >/dev/null 2>&1 &")
PROGRAMS_WITH_RULES = (
    "ln -s src l",
    "tar xf a.tar",
    "unzip a.zip",
    "rsync -a src/ b/",
    "install src/a.py b",
    "git mv a b",
)


def in_background(change: str) -> list[str]:
    return [way.replace("{}", change) for way in (*INTO_BACKGROUND, *DETACHED_BY)]


@for_each_row("change", CHANGES)
def test_a_change_asks_in_the_background_and_not_in_the_foreground(place, change):
    assert behavior(place, change, "acceptEdits") == ALLOW
    for command in in_background(change):
        assert behavior(place, command, "acceptEdits") == ASK, command
        assert behavior(place, command, "acceptEdits", allow=["Edit(**)"]) == ASK, command


@for_each_row("change", (*CHANGES, *PROGRAMS_WITH_RULES))
def test_a_rule_for_the_command_or_for_bash_does_not_cover_it_there(place, change):
    program = change.split()[0]
    for rules in ([f"Bash({program} *)", "Bash(sleep *)", "Edit(**)"], ["Bash"]):
        for command in in_background(change):
            assert behavior(place, command, "acceptEdits", allow=rules) == ASK, (command, rules)


@for_each_row("change", CHANGES)
def test_a_call_that_returns_at_once_is_the_background_whole(place, change):
    policy = place.policy("acceptEdits")
    called = {"command": change, "run_in_background": True}
    assert policy.decide(tool_named("Bash"), called).behavior == ASK
    assert policy.decide(tool_named("Bash"), {**called, "run_in_background": False}).behavior == ALLOW


@for_each_row(
    ("command", "rules"),
    [
        ("ls src &", []),
        ("cat notes.txt > /dev/null &", []),
        ("cat notes.txt 2>&1 & ls", []),
        ("npm run dev &", ["Bash(npm run dev *)"]),
        ("python -m http.server & sleep 1", ["Bash(python *)", "Bash(sleep *)"]),
        ("mkdir new && touch new/a", []),
        ("grep -c x notes.txt && mv notes.txt n.txt", []),
    ],
)
def test_what_changes_nothing_there_is_as_before(place, command, rules):
    assert behavior(place, command, "acceptEdits", allow=rules) == ALLOW


@for_each_row(
    ("command", "expected"),
    [
        ("sleep 9; mv link sub/", True),
        ("mv link sub/", True),
        ("tail -f log; echo x > f", True),
        ("while read a; do cp $a b; done", True),
        ("pytest -q > out.txt", False),
        ("pytest -q 2>&1 | tail -5", False),
        ("npm install", False),
    ],
)
def test_what_a_command_may_yet_change_after_its_time_is_up(command, expected):
    assert may_change_later(command) is expected


LINK_MOVES = ("mv {0} {1}", "cp -a {0} {1}", "cp -r {0} {1}", "mv -f {0} {1}", "mv {0} {1} && echo done")


@for_each_row("move", LINK_MOVES)
def test_a_link_is_judged_where_it_is_moved_to(place, move):
    deep = place.project / "src" / "deep"
    if not (deep / "up").is_symlink():
        (deep / "up").symlink_to("../../notes.txt")  # in the project; at the project's top it would lead out of it
        (place.project / "near").symlink_to("src")
    assert behavior(place, move.format("src/deep/up", "up"), "acceptEdits") == ASK
    assert behavior(place, move.format("src/deep/up", "."), "acceptEdits") == ASK
    if move.startswith("mv"):
        assert behavior(place, move.format("near", "nearer"), "acceptEdits") == ALLOW


@for_each_row(
    "command",
    [
        "mv near src/ && echo x > src/near/f",
        "cp -a near src/ && echo x > src/near/f",
        "cp -P near src/ && echo x > src/near/f",
        "ln -s / l && echo x > l/etc/f",
        "tar xf a.tar && echo x > l/f",
        "mv near src/ & echo x > near/f",
        "mv near src/ | echo x > src/near/f",
        "for i in 1 2; do echo x > near/f; mv near src/; done",
    ],
)
def test_a_write_beside_or_after_a_moved_link_asks(place, command):
    if not (link := place.project / "near").is_symlink():
        link.symlink_to("src")
    allow = ["Bash(ln *)", "Bash(tar *)", "Bash(cp *)", "Bash(mv *)", "Bash(echo *)"]
    assert behavior(place, command, "acceptEdits", allow=allow) == ASK


DESCRIPTORS = (
    ("echo x >&9", ASK),
    ("echo x >&3", ASK),
    ("echo x 1>&10", ASK),
    ("cat <&9", ASK),
    ("echo x >&9 9>new", ASK),
    ("echo x >&'9'", ASK),
    ("(echo x >&4) 3>new", ASK),
    ("echo x > /dev/fd/9", ASK),
    ("echo x > /proc/self/fd/9", ASK),
    ("case a in a) echo x >&9;; esac", ASK),
    ("ls src 2>&1", ALLOW),
    ("ls src 1>&2", ALLOW),
    ("ls src 3>&1 1>&2 2>&3", ALLOW),
    ("{ ls src >&3; } 3>/dev/null", ALLOW),
    ("ls src 9>&-", ALLOW),
    ("cat < /dev/fd/0", ALLOW),
    ("cat <(cat notes.txt)", ALLOW),
    ("echo '>&9'", ALLOW),
)


@for_each_row(("command", "expected"), DESCRIPTORS)
def test_a_descriptor_that_the_command_has_not_opened_asks(place, command, expected):
    assert behavior(place, command) == expected
    if expected == ASK and "/fd/" not in command:
        for mode in ("acceptEdits", "bypassPermissions"):
            assert behavior(place, command, mode, allow=["Bash"]) == ASK


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
def test_the_folder_a_shell_is_in_is_judged_as_a_cd_to_it(place, mode):
    kept: Path = place.project / "secrets"
    for kind in ("deny", "ask"):
        rules = {kind: ["Read(secrets/**)"]}
        assert behavior(place, "cd secrets", mode, **rules) == kind
        assert behavior(place, "pwd", mode, cwd=kept, **rules) == kind
        assert behavior(place, "pwd", mode, cwd=place.project / "src", **rules) == ALLOW
