"""Finding out what this machine can confine commands by."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.sandbox.mechanisms import may_look_at_processes
from cellwright.tools.shell.run_command import reporting_script
from confined import sandbox_by
from everyday_commands import READING

WITHOUT_TEMPORARY_FILES = """
import json, tempfile
tempfile.tempdir = "/nowhere"
from cellwright.sandbox.mechanisms import find_sandbox, missing_means
sandbox = find_sandbox()
print(json.dumps([sandbox is not None and bool(sandbox.bubblewrap), dict(missing_means())]))
"""

ENDS_MEANWHILE = """
import os, pathlib, subprocess, sys
from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox.mechanisms import Sandbox
from cellwright.sandbox import bubblewrap
from cellwright.sandbox.private_folder import PrivateFolder

def start(arguments, environ, inherited):
    until_we_end, _held = os.pipe()
    once_over = ["/bin/sh", "-c", 'read -r _; exec "$@"', "sh", *arguments]
    subprocess.Popen(once_over, env=environ, stdin=until_we_end, pass_fds=inherited)
    os._exit(0)

folder = pathlib.Path(sys.argv[1])
sandbox = Sandbox(bubblewrap=bubblewrap.find_program())
confinement = Confinement(read=(str(folder),))
sandbox.start(start, ["echo", "ran"], confinement, cwd=folder, environ=os.environ, private=PrivateFolder())
"""

PLAIN = r"""
ls -la
cat notes.txt | head -5 && git status --short
cd src && git log --oneline -5 2>/dev/null
grep -rn "ps | top; python" . > /dev/null 2>&1
for f in *.py; do wc -l "$f"; done
if [ -f a ]; then cat a; else echo none; fi
n=$(wc -l < a); echo "$n lines"
LC_ALL=C sort a | uniq -c
while read -r line; do echo "$line"; done < a
{ echo a; echo b; } | tac
echo "$(git rev-parse HEAD)"
! test -e a || sed -n '1,5p' a
trap 'pwd -P >&12 2>/dev/null' EXIT; tar tzf a.tgz
"""
LOOKING = r"""
ps aux
ls; ps aux
echo $(ps aux)
echo "$(ps aux)"
echo `top -bn1`
cat /proc/1/cmdline
python -c 'print(1)'
git log | python x.py
find . -exec ps aux \;
find . -name x | xargs cat
awk 'BEGIN {system("ps")}'
tar -x --to-command=ps -f a
pgrep -fa python
pytest --collect-only
make -n
./run
env ps
if ps; then true; fi
for i in 1 2; do ps; done
case x in x) ps;; esac
x=1 ps
(ps)
sleep 1 & ps
cat <(ps)
"ps" aux
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the means are those of Linux")
def test_where_no_temporary_file_can_be_made_the_means_that_needs_some_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TEMPORARY_FILES], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    mounts, missing = json.loads(done.stdout)
    assert not mounts
    assert missing["bubblewrap"]


def test_nothing_stays_behind_where_a_process_ends_that_has_just_started_a_confined_command(tmp_path: Path) -> None:
    sandbox_by("bubblewrap")  # where there is none, there is nothing to see
    project, temporary = tmp_path / "project", tmp_path / "temporary"
    project.mkdir()
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", ENDS_MEANWHILE, str(project)],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


LIKE_A_CONTAINER = """
mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec "$0" -c '
from cellwright.sandbox import landlock
from cellwright.sandbox.mechanisms import try_landlock
print(try_landlock(landlock.abi()))
'
"""


def test_settings_of_the_kernel_that_are_mounted_read_only_take_no_mechanism_away() -> None:
    """As containers mount them: opening one to write fails otherwise than Landlock refuses it."""
    sandbox_by("bubblewrap")  # where user namespaces are closed, no such place can be made
    sandbox_by("Landlock")
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", LIKE_A_CONTAINER, sys.executable]
    done = subprocess.run(unshare, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def test_what_cannot_do_without_processes_is_known() -> None:
    plain = [line for line in PLAIN.strip().splitlines() if may_look_at_processes(["bash", "-c", line])]
    looking = [line for line in LOOKING.strip().splitlines() if not may_look_at_processes(["bash", "-c", line])]
    assert plain == []
    assert looking == []
    assert not may_look_at_processes(["/usr/bin/git", "diff", "--stat"])
    assert not may_look_at_processes(["rg", "-n", "x"])
    assert may_look_at_processes(["/usr/bin/python3", "-c", "1"])
    assert may_look_at_processes(["bash", "script.sh"])


def test_a_command_is_read_as_the_tool_bash_starts_it() -> None:
    """A script that could not be read would have each command confined by the slower mechanism."""
    for line in (*PLAIN.strip().splitlines(), *LOOKING.strip().splitlines(), "ls", "echo 'it'\"'\"'s'"):
        started = ["bash", "--noprofile", "--norc", "-c", reporting_script(line, 12)]
        assert may_look_at_processes(started) == may_look_at_processes(["bash", "-c", line]), line


def test_most_everyday_reading_has_no_use_for_processes() -> None:
    """So that most of it is confined in 2 ms and not in 9."""
    lines = READING.strip().splitlines()
    plain = [line for line in lines if not may_look_at_processes(["bash", "--noprofile", "--norc", "-c", line])]
    assert len(plain) > len(lines) * 0.55, len(plain) / len(lines)
