"""What Claude is told of a command that failed in the sandbox: by outputs of real programs."""

from __future__ import annotations

from pathlib import Path

from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox.refusals import explain_refusals
from confined import Confined
from row_tables import for_each_row

HERE = Confinement(read=("/home/u/project",))


@for_each_row(
    "output, said",
    [
        ("bash: line 1: x: Permission denied", "access to /home/u/project/x"),
        ("bash: line 1: x: Read-only file system", "writing /home/u/project/x"),
        ("cat: /etc/shadow: Permission denied", "access to /etc/shadow"),
        ("mkdir: cannot create directory ‘/etc/new’: Read-only file system", "writing /etc/new"),
        ("PermissionError: [Errno 13] Permission denied: '/home/u/x'", "access to /home/u/x"),
        ("OSError: [Errno 30] Read-only file system: '/home/u/x'", "writing /home/u/x"),
        ("Error: EACCES: permission denied, open '/home/u/y'", "access to /home/u/y"),
        # what may be read was to be written
        ("PermissionError: [Errno 13] Permission denied: 'new.csv'", "writing /home/u/project/new.csv"),
        ("OSError: [Errno 30] Read-only file system: 'new.csv'", "writing /home/u/project/new.csv"),
        ("sqlite3.OperationalError: attempt to write a readonly database", "attempt to write a readonly database"),
        ("curl: (6) Could not resolve host: example.org", "the network"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "the network"),
        ("getaddrinfo EAI_AGAIN api.example.org", "the network"),
        ("bash: line 1: kill: (1) - Operation not permitted", "signals"),
        ("ls: cannot access '/etc/passwd': No such file or directory", "access to /etc/passwd, which exists"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "sandbox could not be made"),
    ],
)
def test_what_was_refused_is_said(output: str, said: str) -> None:
    told = explain_refusals(f"some words\n{output}\n", HERE, "/home/u/project")
    assert said in told
    assert "dangerouslyDisableSandbox: true" in told


@for_each_row(
    "output",
    [
        "",
        "AssertionError: 1 != 2",
        "cat: nothing: No such file or directory",
        "make: *** [Makefile:2: test] Error 1",
        "ModuleNotFoundError: No module named 'torch'",
        "error: pathspec 'x' did not match any file(s) known to git",
    ],
)
def test_other_failures_are_no_refusals(output: str) -> None:
    assert explain_refusals(output, HERE, "/home/u/project") == ""


def test_many_are_not_listed_and_hosts_are_named() -> None:
    output = "\n".join(f"cat: /x/{number}: Permission denied" for number in range(10))
    assert "and 7 more" in explain_refusals(output, HERE)
    told = explain_refusals("Could not resolve host: x", Confinement(hosts=("example.org",)))
    assert "it may reach example.org only" in told
    found = explain_refusals("Could not resolve host: x", Confinement(any_host=True))
    assert found == ""


def test_refusals_of_real_commands_are_recognised(confined: Confined, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("x", "utf-8")
    silent = {}
    for script in (
        f"cat {outside}",
        "echo x > new",
        "mkdir new",
        f"python -c \"open('{outside}')\"",
        "python -c \"open('new', 'w')\"",
        "python -c \"import urllib.request; urllib.request.urlopen('http://example.org')\"",
        "python -c \"import socket; socket.create_connection(('127.0.0.1', 9))\"",
        "curl -sS http://example.org",
        "git init .",
    ):
        ended = confined.bash(script)
        confinement = Confinement(read=(str(confined.root),))
        if ended.code == 0 or not explain_refusals(ended.output, confinement, str(confined.root)):
            silent[script] = ended
    assert silent == {}
