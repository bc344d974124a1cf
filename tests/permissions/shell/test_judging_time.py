"""Judging takes no longer for what was written to keep it busy: each decision a few hundredths of a second."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from cellwright.permissions.confined import command_use
from cellwright.permissions.judges import python, shell_call
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import NO_SANDBOX, SandboxAbilities, SandboxRules
from cellwright.permissions.shell import conservative_parse, reading
from declared_tools import tool_named

LENGTH = 10_000
SECONDS = 0.05
"""For a decision, on a machine that does nothing else."""
TRIES = 5

REALPATH_SECONDS = 0.001
"""What `slowness` takes to look at files on the machine that `SECONDS` is meant for: 5 µs a path."""


def filled(piece: str, before: str = "", after: str = "") -> str:
    """`piece` again and again, as often as fits into the longest command that is looked at."""
    return before + piece * ((LENGTH - len(before) - len(after)) // len(piece)) + after


def counted(piece: Callable[[int], str], before: str = "", after: str = "") -> str:
    """As `filled`, and no two pieces are the same."""
    made = before
    for number in range(LENGTH):
        if len(made) + len(piece(number)) + len(after) > LENGTH:
            break
        made += piece(number)
    return made + after


COMMANDS = {
    "words": counted(lambda number: f"w{number} ", "cat "),
    "files": counted(lambda number: f"{'./' * (number // 150)}f{number % 150}.txt ", "cat "),
    "files written": counted(lambda number: f"> {'./' * (number // 150)}f{number % 150}.txt ", "cat a "),
    "new files": counted(lambda number: f"touch ../proj/w{number};"),
    "one word": filled("a", "cat "),
    "folders": counted(lambda number: f"cd d{number};"),
    "folders and names": "".join(f"cd d{number};" for number in range(40)) + counted(lambda n: f"w{n} ", "cat ")[:9000],
    "folders and wildcards": "cd src; cd ..; " * 30 + counted(lambda number: f"w{number}* ", "cat ")[:9000],
    "links": "cd src; cd ../link-in; " * 15 + counted(lambda number: f"w/{number}/../x ", "cat ")[:9000],
    "wildcards": counted(lambda number: f"*{number}* ", "cat "),
    "wildcards in folders": filled("src/* ", "ls "),
    "stars": filled("*a", "cat "),
    "brackets": filled("[", "cat "),
    "classes": filled("[[:", "cat "),
    "escapes in brackets": filled("[\\", "cat "),
    "users": counted(lambda number: f"~u{number} ", "cat "),
    "a long way": filled("../", "cat "),
    "links on a way": filled("link-in/../", "cat "),
    "quotes": filled("'a'", "echo "),
    "an open quote": filled("'a' ", "echo ", "'"),
    "escaped quotes": filled('\\"', 'echo "', '"'),
    "backslashes": filled("\\\\", "echo "),
    "substitutions": filled("$(a)", 'echo "', '"'),
    "nested substitutions": "echo " + "$(" * 3000 + ")" * 3000,
    "subshells": "(" * 4900 + ")" * 4900,
    "braces": filled("{a,b}", "echo "),
    "sequences": filled("x{1..200} "),
    "long sequences": filled("{1..999999} "),
    "many braces": filled("a{b,c}d{e,f}g{h,i}j{k,l}m{n,o}p{q,r}s{t,u} "),
    "here-documents": counted(lambda number: f"<<E{number} ", "cat ", "\n"),
    "a here-document": filled("a\n", "cat <<EOF\n", "EOF\n"),
    "redirects": filled("> a "),
    "angles": filled(">"),
    "sense is looked for": filled("a@"),
    "parameters": filled("${"),
    "lists": filled("a && ", after="a"),
    "pipes": filled("a | ", after="a"),
    "loops": "for i in a; do " * 300 + "b" + "; done" * 300,
    "wrappers": filled("nice "),
    "variables": filled("A=b ", after="make"),
    "pieces of names": filled("a=b:", "cat "),
    "colons": filled(":", "git show "),
    "removes": counted(lambda number: f"cd d{number}; rm x{number};"),
    "removes by wildcard": filled("* ", "rm -rf "),
    "removes what is printed": filled("rm "),
    "removes in folders of flags": counted(lambda number: f"env -C d{number} rm x{number};"),
    "removes in one folder": filled("-C .. ", "env ", " rm -rf x"),
    "removers": filled("tar rsync mv git clean rm zip shred ", "env "),
    "removes what is found": filled("xargs time find "),
    "removes by code": filled("rmtree(a);a=a,b,c;", 'python -c "'),
    "removes by other code": filled("unlink fs.rm rm( ", "perl -e '"),
    "background": filled("echo x >&7 & "),
    "removes by variable": filled("X=rm;", after="$X /"),
    "a script for sed": filled("[", "sed -i 's/", "' f"),
    "blanks in a script": filled(" ", "sed -n '1", "x' f"),
    "folders to pack": filled("src ", "tar c "),
    "git": filled("git show a;"),
    "letters of others": filled("é", "echo '", "'"),
    "scripts in scripts": filled("bash -c 'a' && ", after="bash -c \"bash -c 'bash -c a'\""),
    "scripts of nonsense": "".join(
        f"bash -c '{piece * 900}'\n" for piece in ("a@", "((", "{ ", "$(", "<<E ", "[[ ", "`a")
    ),
    "nested braces": "{ " * 2400 + "a" + "; }" * 1700,
    "nested quotes": 'echo "$(' * 900 + "a" + ')"' * 900,
    "backticks": filled("`a`", "echo "),
    "open backticks": filled("`"),
    "arithmetic": filled("((1+", "echo $"),
    "nested arithmetic": "echo " + "$((" * 1600 + "1" + "))" * 1600,
    "nested expansions": "echo " + "${a:-" * 1600 + "b" + "}" * 1600,
    "slices": filled("${a[@]:1:2}", "echo "),
    "cases": "case a in b) " * 500 + "c" + ";; esac" * 500,
    "functions": counted(lambda number: f"f{number}() {{ a; }}; "),
    "tests": filled("[[ a == b || ", after="a ]]"),
    "here-documents in each other": counted(lambda number: f"cat <<E{number} && "),
    "here-documents in substitutions": counted(lambda number: f"$(cat <<E{number}\na\nE{number}\n) "),
    "here-strings": filled("<<<a ", "cat "),
    "process substitutions": filled("<(a) ", "cat "),
    "dollars": filled("$"),
    "odd quotes": filled("$'\\x41'", "echo "),
    "all quotes": filled("\"'`$(", "echo "),
    "operators": filled("&|;<>"),
    "nonsense": "".join(chr(33 + number * number * 7919 % 94) for number in range(LENGTH)),
    "nonsense with words": "".join(f"{chr(33 + number * 7919 % 94)} if do [[ " for number in range(LENGTH // 12)),
    "groups of nonsense": filled("{(|)}! "),
    "loops without an end": filled("while a; do "),
    "conditions without an end": filled("if a; then b; elif "),
    "awk": filled("{print $1} ", "awk '", "' f"),
    "finds": filled("-exec a {} + ", "find . "),
    "xargs": filled("xargs "),
    "environments": filled("env A=b ", after="c"),
}
CODE = {
    "shell": counted(lambda number: f"!cat f{number}\n"),
    "calls": counted(lambda number: f"os.system('cat f{number}')\n"),
    "arguments": filled("'a',", "subprocess.run([", "])"),
    "targets": filled("a[", after="!x"),
    "blanks": filled(" ", "a", "!x"),
    "parentheses": filled("("),
    "fields": filled("{a}", "f'", "'"),
    "deletes": counted(lambda number: f"os.remove('x{number}')\n"),
}
PATCHES = {
    "files": counted(lambda number: f"*** Add File: f{number}\n+a\n", "*** Begin Patch\n", "*** End Patch"),
    "hunks": filled("@@\n-a\n+b\n", "*** Begin Patch\n*** Update File: a\n", "*** End Patch"),
    "headers": filled("--- a\n+++ b\n"),
    "a name": filled("a/", "diff --git "),
}
INPUTS = (
    *(("Bash", name, {"command": text}) for name, text in COMMANDS.items()),
    *(("Python", name, {"code": text}) for name, text in CODE.items()),
    *(("ApplyPatch", name, {"patch": text}) for name, text in PATCHES.items()),
)
RULES = {
    "rules for files": {"deny": ["Read(.env)", "Read(./secrets/**)", "Edit(*.lock)"], "ask": ["Read(*.key)"]},
    "rules for all": {
        "allow": ["Bash", "Python", "Edit", "Bash(git *)"],
        "deny": ["Read(*.a.b/**/x/**/y)", "Bash(*a*b*c*d*)"],
        "ask": ["Edit(**/x/**/z)"],
    },
}


SANDBOXES = {
    "no sandbox": NO_SANDBOX,
    "a sandbox": SandboxRules(
        means=SandboxAbilities(name="one", hides=True, protects=True, hosts=True, protects_patterns=True)
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("rules", RULES)
def test_no_input_keeps_judging_busy(place, rules, sandbox):
    for number in range(150):
        (place.project / f"f{number}.txt").write_text("x", "utf-8")
    policy = replace(place.policy("acceptEdits", **RULES[rules]), sandbox=SANDBOXES[sandbox])
    policy.decide(tool_named("Bash"), {"command": "ls"})  # what is imported with the first one
    slow = {}
    for tool, name, tool_input in INPUTS:
        taken = min(judged(policy, tool, tool_input))
        if taken > SECONDS:
            slow[name] = f"{taken * 1000:.0f} ms"
    assert slow == {}


def judged(policy: PermissionPolicy, tool: str, tool_input: dict[str, str]) -> list[float]:
    """The computing time of several decisions, or of one that was fast enough, as a machine at rest would take it."""
    taken: list[float] = []
    while len(taken) < TRIES and not (taken and taken[-1] < SECONDS):
        shell_call.taken_apart.cache_clear()
        conservative_parse.parse_conservatively.cache_clear()
        command_use.command_use.cache_clear()
        reading._tree.cache_clear()
        python._uses.cache_clear()
        before = slowness() if taken else 1.0  # it changes within a second
        started = time.thread_time()
        policy.decide(tool_named(tool), tool_input)
        spent = time.thread_time() - started
        taken.append(spent / max(before, slowness()) if taken else spent)
    return taken


def slowness() -> float:
    """How much slower than a machine with nothing else to do this one is now, in Python or in looking at files."""
    started = time.thread_time()
    sum(len(str(number)) for number in range(100_000))
    computed = time.thread_time()
    for _ in range(200):
        os.path.realpath("/usr/local/lib")  # as a decision does
    looked = time.thread_time()
    return max(1.0, (computed - started) / 0.012, (looked - computed) / REALPATH_SECONDS)
