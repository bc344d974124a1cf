"""Processes, devices and settings of the kernel: no bounds reach the host's, not even those that begin at `/`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox.mechanisms import KERNEL_IS_OPEN, PROCESSES_ARE_SHOWN, Sandbox, try_bubblewrap
from cellwright.sandbox.paths import places_of
from cellwright.sandbox.private_folder import PrivateFolder
from confined import Confined, sandbox_by, staging_sandbox
from processes.user_process import as_user
from row_tables import for_each_row

LOOK = """
echo x > /dev/null && head -c 1 /dev/urandom > /dev/null && echo devices
echo x > $TMPDIR/x && cat $TMPDIR/x > /dev/null && echo temporary
cat < <(echo substitution)
test -r /proc/self/status && test -r /proc/cpuinfo && echo processes
cat {root}/secret; cat {root}/private/secret
for each in {knobs}; do (: >> $each) && echo "$each is open"; done
for each in /dev/[hsv]d? /dev/kmsg /dev/mem /dev/kvm /dev/fuse; do head -c 1 $each > /dev/null && echo "$each is read"; done
head -c 1 /proc/{other}/environ && echo "the environment of another is read"
true
"""
SEEN = ["devices", "temporary", "substitution", "processes"]
KNOBS = (
    *(
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
        "/proc/irq/default_smp_affinity",
    ),
    *("/proc/mtrr", "/proc/bus/pci/00/00.0", "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/profiling"),
    *("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/cpu/release_agent"),
)
WHOLE = {
    "reading": (Confinement(read=("/",)), 2),
    "reading without some": (Confinement(read=("/",), hidden=("{root}/secret", "{root}/private")), 0),
    "reading without what is the kernel's": (Confinement(read=("/",), hidden=("/sys/kernel", "/proc/sys")), 2),
    "reading all, writing a folder": (Confinement(read=("/",), write=("{root}",)), 2),
    "reading all, judging what is written": (
        Confinement(read=("/",), write=("{root}",), hidden=("{root}/secret",), protects=lambda _: False),
        1,
    ),
    "writing": (Confinement(write=("/",)), 2),
    "writing without some": (Confinement(write=("/",), hidden=("{root}/secret",), protected=("{root}/kept",)), 1),
    "writing settings": (Confinement(read=("/",), write=("/proc/sys", "/sys", "/dev")), 2),
    "named hosts": (Confinement(read=("/",), hosts=("example.org",)), 2),
    "named hosts, writing": (Confinement(write=("/",), hosts=("example.org",)), 2),
}
"""Bounds, and how many of two files are shown."""

BY_LANDLOCK = [
    name for name, (bounds, _) in WHOLE.items() if not (bounds.hosts or bounds.protects or "/" in bounds.write)
]


def placed(confinement: Confinement, root: Path) -> Confinement:
    named = {
        name: tuple(path.format(root=root) for path in getattr(confinement, name))
        for name in ("read", "write", "hidden", "protected")
    }
    return Confinement(**named, hosts=confinement.hosts, protects=confinement.protects)


def look(sandbox: Sandbox, name: str) -> list[str]:
    """Run the script within bounds that begin at `/`; what it said that it got."""
    with contextlib.closing(PrivateFolder()) as private, tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder))
        (root / "private").mkdir()
        for place in (root / "secret", root / "private/secret", root / "kept"):
            place.write_text("shown\n", "utf-8")
        bounds = placed(WHOLE[name][0], root)
        script = LOOK.format(root=root, knobs=" ".join(KNOBS), other=os.getpid())
        environ = {"PATH": os.defpath, "HOME": folder}
        port = 40_000 if bounds.hosts else None
        sandboxed = Confined(sandbox, private, root)
        ended = sandboxed.bash(f"exec 2> /dev/null; {script}", bounds, environ=environ, proxy_port=port)
        return ended.output.splitlines()


def expected(name: str) -> list[str]:
    return [*SEEN, *["shown"] * WHOLE[name][1]]


@for_each_row("name", list(WHOLE))
def test_bounds_that_begin_at_the_top_hold_nothing_of_the_kernels(mounted: Confined, name: str) -> None:
    assert look(mounted.sandbox, name) == expected(name)


@for_each_row("name", list(WHOLE))
def test_they_hold_nothing_of_it_for_a_user(name: str) -> None:
    sandbox = sandbox_by("bubblewrap")
    assert as_user(lambda: look(sandbox, name)) == expected(name)


@for_each_row("name", BY_LANDLOCK)
def test_they_hold_nothing_of_it_by_landlock(landlocked: Confined, name: str) -> None:
    assert look(landlocked.sandbox, name) == expected(name)


def test_a_project_among_the_devices_is_kept(mounted: Confined) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root = Path(folder)
        (root / "a").write_text("a\n", "utf-8")
        seen = {}
        for name, bounds in {"read": Confinement(read=("/",)), "write": Confinement(write=("/",))}.items():
            ended = Confined(mounted.sandbox, mounted.private, root).bash(
                "cat a; echo b > b && cat b; ls /dev/shm | wc -l", bounds
            )
            seen[name] = [line for line in ended.output.splitlines() if "Read-only" not in line]
        assert seen == {"read": ["a", "1"], "write": ["a", "b", "1"]}
        for bounds in (Confinement(read=("/usr",)), Confinement(read=("/",), hidden=("/dev/shm",))):
            assert "a\n" not in Confined(mounted.sandbox, mounted.private, root).bash("cat a", bounds).output


def test_a_project_among_the_devices_is_held_to_its_bounds(mounted: Confined) -> None:
    """Wherever in it the command begins: a mount of that folder alone would lie over what is protected or staged."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root, deep = Path(folder), Path(folder, "src", "deep")
        deep.mkdir(parents=True)
        protected = Confinement(write=(str(root),), protected=(str(root / "src"),))
        judged_at_the_end = Confinement(write=(str(root),), protects=lambda _path: True)
        for sandbox, bounds in ((mounted.sandbox, protected), (staging_sandbox(), judged_at_the_end)):
            for cwd in (root, root / "src", deep):
                Confined(sandbox, mounted.private, root).bash("touch made; touch ../made; true", bounds, cwd=cwd)
                assert not (root / "src" / "made").exists(), (bounds, cwd)
                assert not (deep / "made").exists(), (bounds, cwd)


def test_processes_of_others_are_hidden_where_a_command_can_have_its_own(mounted: Confined) -> None:
    secret = "--token=of-another"
    with subprocess.Popen(["sh", "-c", "read -r _", secret], stdin=subprocess.PIPE) as other:
        for bounds in (Confinement(read=("/",)), Confinement(write=("/",)), Confinement(read=(str(mounted.root),))):
            ended = mounted.bash("ps -e -o pid= | wc -l; ps -ef; cat /proc/[0-9]*/cmdline", bounds)
            assert secret not in ended.output
            assert int(ended.output.split()[0]) < 10
        other.communicate(b"\n")


def test_the_faster_mechanism_shows_no_processes_where_there_is_another(
    landlocked: Confined, mounted: Confined
) -> None:
    """Through links of the project as well: no rule covers any process, whatever the text of a command says."""
    both = replace(mounted.sandbox, landlock=landlocked.sandbox.landlock)
    (landlocked.root / "link").symlink_to("/proc")
    script = f"cat link/{os.getpid()}/cmdline; cat /proc/cpuinfo /proc/meminfo | wc -l; cat /proc/self/status; ls link"
    seen = {}
    for processes in (False, True):
        ended = Confined(both, landlocked.private, landlocked.root).bash(script, processes=processes)
        seen[processes] = "Permission denied" in ended.output
        assert "pytest" not in ended.output.replace(script, "")
        assert not ended.output.startswith("0\n")
    assert seen == {False: True, True: False}


PLACES = """
21 27 0:21 / /proc rw,relatime shared:5 - proc proc rw
22 21 0:22 / /proc/sys/fs/binfmt_misc rw - binfmt_misc none rw
23 21 0:23 /sys /proc/sys ro - proc proc rw
24 27 0:24 / /dev rw - tmpfs tmpfs rw
25 24 0:25 / /dev/shm rw - tmpfs shm rw
26 24 0:26 / /dev/pts rw - devpts devpts rw
28 27 0:28 / /srv/a\\040root/proc rw - proc proc rw
29 27 0:29 / /srv/a\\040root/sys rw - sysfs sysfs rw
30 27 0:30 / /srv/a\\040root/dev rw - devtmpfs udev rw
31 27 0:31 /null /srv/covered rw - devtmpfs udev rw
32 27 254:0 / /data rw - ext4 /dev/vda rw
33 27 0:33 / /sys/kernel/debug rw - debugfs none rw
"""


def test_where_the_kernels_files_are_is_read_from_the_mounts() -> None:
    places = places_of(PLACES.splitlines())
    assert set(places.private) == {"/proc", "/dev", "/dev/pts", "/srv/a root/proc", "/srv/a root/dev"}
    assert set(places.shared) == {"/sys", "/srv/a root/sys"}
    held = {"/proc/sys", "/sys/kernel/debug/x", "/dev/sda", "/srv/a root/proc/1/root", "/dev", "/dev/pts/0"}
    free = {"/dev/shm/project", "/data", "/srv/a root", "/srv/covered", "/process", "/"}
    assert {path for path in held | free if places.hold(path)} == held
    assert set(places.below("/srv")) == {"/srv/a root/proc", "/srv/a root/dev", "/srv/a root/sys"}
    assert set(places_of(()).below("/")) == {"/proc", "/dev", "/sys"}


BROKEN = """#!{python} -I
import os, sys
given = sys.argv[1:]
{change}
os.execv({bwrap!r}, [{bwrap!r}, *given])
"""
CHANGES = {
    "as it is": ("", ""),
    "settings of the kernel may be written": (
        "at = given.index('--remount-ro', given.index('/proc')); del given[at:at + 2]",
        KERNEL_IS_OPEN,
    ),
    "the host's processes": (
        "at = given.index('--proc'); given[at:at + 1] = ['--dev-bind', '/proc']",
        PROCESSES_ARE_SHOWN,
    ),
    "nothing is hidden": (
        "given = [w for w in given]; at = next(i for i, w in enumerate(given) if w.endswith('hidden-file')); "
        "del given[at - 1:at + 2]",
        "it does not do its work here",
    ),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_the_canary_finds_what_a_mechanism_leaves_open(name: str, tmp_path: Path) -> None:
    change, said = CHANGES[name]
    if said == KERNEL_IS_OPEN and os.geteuid():
        said = ""  # the settings are root's alone: who is not root is refused by the files' own modes
    program = tmp_path / "bwrap"
    bwrap = sandbox_by("bubblewrap").bubblewrap
    program.write_text(BROKEN.format(python=sys.executable, change=change, bwrap=bwrap), "utf-8")
    program.chmod(0o755)
    assert said in try_bubblewrap(str(program))
    assert bool(try_bubblewrap(str(program))) is bool(said)
