"""Everyday programs work in a sandbox: with the requests to files that are let through, and without processes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox.mechanisms import may_look_at_processes
from confined import Confined

BUILDING = {
    "a compiler": "! command -v gcc || { echo 'int main(){return 0;}' > a.c && gcc -O1 a.c -o a && ./a; }",
    "make": "! command -v make || { printf 'all:\\n\\techo made > made\\n' > Makefile && make -j2 && grep made made; }",
    "tests": "printf 'def test_x(tmp_path):\\n    assert tmp_path\\n' > test_x.py && python -m pytest -q test_x.py",
    "archives": "mkdir -p d && echo x > d/e && tar czf d.tgz d && rm -r d && tar xzf d.tgz && cat d/e",
    "git": "git init -q . && git add -A && git -c user.name=x -c user.email=x@y.z commit -qm x && git status --short",
    "node": '! command -v node || node -e \'require("fs").writeFileSync("n", "x"); console.log(process.stdout.isTTY)\'',
    "copies": "rm -rf c c? && echo x > c && cp --reflink=auto c c2 && cp -a c c3 && mv c3 c4 && ln -s c c5 && stat -c %s c4",
    "several processes": "python -c 'import multiprocessing as m\nwith m.Pool(2) as p: print(*p.map(abs, [1]))'",
    "a database": 'python -c \'import sqlite3; d = sqlite3.connect("x.db"); d.execute("create table if not exists t (a)")\'',
}
READING = {
    "a terminal": "python -c 'import os, pty, termios, tty, fcntl, struct\n"
    "m, s = pty.openpty(); a = termios.tcgetattr(s); tty.setraw(s); termios.tcsetattr(s, 0, a)\n"
    'fcntl.ioctl(s, termios.TIOCSWINSZ, struct.pack("4H", 9, 9, 0, 0)); print(os.get_terminal_size(s), os.isatty(s))\'',
    "a program in a terminal": "! command -v script || script -qec 'stty size; echo in' /dev/null < /dev/null | grep in",
    "flags of files": "! command -v lsattr || lsattr data.csv || true",
    "how much is there": 'python -c \'import fcntl, os, termios; r, w = os.pipe(); os.write(w, b"xx"); b = bytearray(4)\n'
    "fcntl.ioctl(r, termios.FIONREAD, b); assert b[0] == 2; fcntl.ioctl(r, termios.FIOCLEX)'",
    "limits": "ulimit -n 64 && ulimit -a > /dev/null && python -c 'import resource; resource.setrlimit(7, (9, 9))'",
    "waiting for a file": "timeout 0.2 tail -f data.csv; true",
    "threads": "python -c 'import threading; t = threading.Thread(target=print, args=(1,)); t.start(); t.join()'",
    "aborting": "python -c 'import os; os.abort()'; test $? = 134",
    "a lock": "python -c 'import fcntl; fcntl.flock(open(\"data.csv\"), fcntl.LOCK_SH)'",
    "processes": "ps aux > /dev/null && pgrep -x no-such-program; test -d /proc/self && nproc && uptime && df . && free",
    "a process that is not there": "! kill -0 999999",
}
PLAIN = {
    "text": "sort data.csv | uniq -c | sort -rn | head -3; wc -l < data.csv; cut -d, -f1 data.csv | tr a-z A-Z",
    "names": "ls -laR . | head; find . -name '*.csv' -size -1M | sort; tree -L 1; du -sh .; stat data.csv; file data.csv",
    "differences": "diff data.csv data.csv && cmp data.csv data.csv && comm -12 <(sort data.csv) <(sort data.csv)",
    "sums": "md5sum data.csv; sha256sum data.csv; base64 data.csv; od -c data.csv",
    "a repository": "git status --short && git log --oneline | head -3 && git diff --stat && git grep -n 1",
    "archives": "tar czf $TMPDIR/a.tgz data.csv && tar tzf $TMPDIR/a.tgz && zcat $TMPDIR/a.tgz && cp -p data.csv $TMPDIR/b",
    "the machine": "uname -a; cat /proc/cpuinfo /proc/meminfo > $TMPDIR/c; nproc; id; date; locale > $TMPDIR/d",
    "awk": "awk -F, '{s += $1} END {print s}' data.csv; jq . <<< '{}'; printf '%s\\n' a b | paste -sd,",
}


@pytest.fixture
def repository(root: Path) -> Path:
    (root / "data.csv").write_text("1,2\n", "utf-8")
    own = ("-c", "user.name=x", "-c", "user.email=x@y.z")
    for arguments in (("init", "-q", "."), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run(["git", *own, *arguments], cwd=root, check=True)
    return root


@pytest.mark.parametrize("version", [3, 7])
def test_programs_of_every_day_work_by_landlock(landlocked: Confined, repository: Path, version: int) -> None:
    older = replace(landlocked.sandbox, landlock=min(version, landlocked.sandbox.landlock))
    sandboxed = Confined(older, landlocked.private, repository)
    # neither new terminals nor memory that others share are open; and without scopes the filter refuses signals, among
    # them those of a process to its own threads
    left_out = {"a terminal", "a program in a terminal", "several processes", *(["aborting"] if version < 6 else [])}
    assert failing(sandboxed, READING, Confinement(read=(str(repository),)), left_out) == {}
    bounds = Confinement(write=(str(repository),), metadata=True)
    assert failing(sandboxed, BUILDING, bounds, left_out) == {}


def test_programs_of_every_day_work_by_bubblewrap(mounted: Confined, repository: Path) -> None:
    assert failing(mounted, READING, Confinement(read=(str(repository),))) == {}
    assert failing(mounted, BUILDING, Confinement(write=(str(repository),))) == {}
    if mounted.sandbox.stages:
        assert failing(mounted, BUILDING, Confinement(write=(str(repository),), protects=lambda _: False)) == {}


def test_plain_commands_do_without_processes(landlocked: Confined, repository: Path) -> None:
    assert [name for name, script in PLAIN.items() if may_look_at_processes(["bash", "-c", script])] == []
    assert failing(landlocked, PLAIN, Confinement(read=(str(repository),)), processes=False) == {}


def failing(
    sandboxed: Confined,
    programs: dict[str, str],
    bounds: Confinement,
    left_out: set[str] | None = None,
    *,
    processes: bool = True,
) -> dict[str, object]:
    wrong: dict[str, object] = {}
    for name, script in programs.items():
        if name not in (left_out or ()):
            ended = sandboxed.bash(f"set -o pipefail; {script}", bounds, processes=processes)
            missing = "command not found" in ended.output
            if (ended.code and not missing) or "ermission denied" in ended.output or "not permitted" in ended.output:
                wrong[name] = ended
    return wrong
