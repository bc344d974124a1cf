"""Files that show a process: `/proc/…/environ` and the like hold the kernel's keys, and nothing reads them unasked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.permissions.paths import shows_process
from cellwright.permissions.policy import PermissionPolicy
from declared_tools import tool_named
from row_tables import for_each_row

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no procfs here")

SPELLINGS = """
/proc/self/environ
/proc/1/environ
/proc/self/mem
/proc/self/maps
/proc/self/auxv
/proc/self/cmdline
/proc/self/task/1/environ
/proc/thread-self/environ
//proc/self/environ
/proc//self///environ
/proc/./self/environ
/proc/self/../self/environ
/etc/../proc/self/environ
/proc/self/root/proc/self/environ
/proc/self/root/etc/passwd
/proc/1/root/etc/shadow
/proc/self/cwd/.env
/proc/self/fd/0
/proc/self/fd/../environ
/proc/kcore
/dev/fd/../environ
/dev/fd/0/../../environ
/dev/mem
up/proc/self/environ
environ-link
environ-link-2
proc-link/self/environ
proc-link/1/environ
self-link/environ
"""


@pytest.fixture
def links(place):
    """The place, with links of the project's that lead to processes."""
    for name, target in {
        "up": "/",
        "environ-link": "/proc/self/environ",
        "environ-link-2": "environ-link",
        "proc-link": "/proc",
        "self-link": "/proc/self",
    }.items():
        (place.project / name).symlink_to(target)
    return place


def everywhere(place, mode="default", **rules):
    """A session that works in the whole machine: no place is outside of it."""
    return PermissionPolicy(mode=mode, roots=["/"], cwd=place.project, **rules)


READING = (("Read", "file_path"), ("Grep", "path"), ("NotebookRead", "notebook_path"))


@for_each_row("path", SPELLINGS.split())
@for_each_row(("tool", "field"), READING)
def test_no_spelling_is_read_unasked(links, path, tool, field):
    call = tool_named(tool, read_only=True), {field: path, "pattern": "KEY"}
    assert links.policy().decide(*call).behavior == "ask"
    # also where all of the machine is the session's, and a rule allows all reading
    for policy in (everywhere(links), everywhere(links, "acceptEdits", allow=["Read", "Read(//**)", "Grep"])):
        decision = policy.decide(*call)
        assert decision.behavior == "ask"
        assert decision.suggestions == ()
    assert everywhere(links, "dontAsk").decide(*call).behavior == "deny"


@for_each_row("path", SPELLINGS.split())
def test_no_spelling_is_written_unasked(links, path):
    policy = everywhere(links, "acceptEdits", allow=["Edit", "Edit(//**)"])
    assert policy.decide(tool_named("Write"), {"file_path": path, "content": "x"}).behavior == "ask"


@for_each_row("path", ["/", "/proc", "/dev", "/proc/self", "up", "proc-link", "/proc/.."])
def test_a_search_does_not_come_upon_them(links, path):
    search = tool_named("Grep", read_only=True), {"path": path, "pattern": "KEY"}
    assert everywhere(links, allow=["Grep", "Read(//**)"]).decide(*search).behavior == "ask"


@for_each_row(
    "path",
    [
        # what only looks like one: nothing decodes these, they are names in the project
        *("%2Fproc%2Fself%2Fenviron", "proc/self/environ", "proc/1/data.csv", "file:/proc/self/environ", "$HOME/x"),
        *("..%2f..%2fproc/self/environ", "\\proc\\self\\environ", "'/proc/self/environ'", "%2e%2e/src"),
    ],
)
def test_what_only_looks_like_one_is_a_name_in_the_project(links, path):
    assert links.policy().decide(tool_named("Read", read_only=True), {"file_path": path}).behavior == "allow"
    assert not (links.project / path).exists()


WORDS = r"""
/proc/self/environ
/proc/$PPID/environ
/proc/$$/environ
"/proc/self/environ"
'/proc/self/'environ
/pro"c"/se\lf/environ
/proc/*/environ
/proc/[0-9]*/environ
/proc/self/env?ron
/pr?c/self/environ
/p*/*/env*
/proc/{self,1}/environ
{/proc,/x}/self/environ
$'/proc/self/environ'
$'\x2fproc/self/environ'
$(echo /proc/self/environ)
`echo /proc/self/environ`
~/../../../../../../../../../../proc/self/environ
../../../../../../../../../../../proc/self/environ
environ-link
proc-link/self/environ
/proc/self/root/proc/1/environ
/dev/fd/../environ
/proc/self/mem
/proc/1/fd/3
"""
PROGRAMS = (
    *(
        "cat {}",
        "head -c 100 {}",
        "tail {}",
        "strings {}",
        "tr '\\0' '\\n' < {}",
        "grep -a KEY {}",
        "xxd {}",
        "od -c {}",
    ),
    *(
        "wc -c {}",
        "sort {}",
        "cut -d= -f2 {}",
        "cat -- {}",
        "cat notes.txt {}",
        "diff notes.txt {}",
        "cat <{}",
        "less {}",
    ),
    *("wc --files0-from={}", "sort --files0-from={}", "xargs -0 -a {} echo", "grep -f {} notes.txt", "base64 {}"),
    *("cd . && cat {}", 'echo "$(cat {})"', "cat notes.txt | grep -f {}", "while read x; do echo $x; done < {}"),
)


@for_each_row("program", PROGRAMS)
@for_each_row("word", WORDS.split("\n")[1:-1])
def test_no_command_reads_them_unasked(links, program, word):
    command = {"command": program.format(word)}
    assert links.policy().decide(tool_named("Bash"), command).behavior == "ask"
    assert everywhere(links).decide(tool_named("Bash"), command).behavior == "ask"
    assert links.policy("plan").decide(tool_named("Bash"), command).behavior in ("ask", "deny")


@for_each_row(
    "command",
    ["ps e", "ps auxe", "ps -eo args e", "cat /proc/self/environ", "xxd /proc/1/mem", "strings /proc/*/environ"],
)
def test_a_rule_for_the_program_does_not_cover_them(links, command):
    program = command.split()[0]
    if program != "ps":
        assert (
            links.policy(allow=[f"Bash({program} *)"]).decide(tool_named("Bash"), {"command": command}).behavior
            == "ask"
        )
        assert links.policy(allow=["Bash"]).decide(tool_named("Bash"), {"command": command}).behavior == "ask"
    assert links.policy().decide(tool_named("Bash"), {"command": command}).behavior == "ask"


def test_the_key_in_a_real_process_is_out_of_reach(links):
    """What the rule is for: any program of the user's can read the variables that a process was started with."""
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=-1, stdout=-1, env={"A_KEY": "sk-secret"}) as child:
        child.stdout.readline()
        path = f"/proc/{child.pid}/environ"
        assert b"sk-secret" in Path(path).read_bytes()
        (links.project / "innocent.txt").symlink_to(path)
        for policy in (links.policy(), everywhere(links, allow=["Read(//**)", "Bash(cat *)"])):
            for name in (path, "innocent.txt"):
                assert policy.decide(tool_named("Read", read_only=True), {"file_path": name}).behavior == "ask"
                assert policy.decide(tool_named("Bash"), {"command": f"cat {name}"}).behavior == "ask"
        child.communicate(b"\n")


@for_each_row(
    "place_name", ["/proc/meminfo", "/proc/cpuinfo", "/proc", "/dev/null", "/home/proc/1/environ", "/process/1"]
)
def test_what_shows_no_process(place_name):
    assert not shows_process(place_name)
