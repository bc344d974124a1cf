"""Which commands are confined without any view of processes, by the faster mechanism."""

from __future__ import annotations

from cellwright.sandbox.plain_commands import may_look_at_processes
from cellwright.tools.shell.run_command import reporting_script
from everyday_commands import READING

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
