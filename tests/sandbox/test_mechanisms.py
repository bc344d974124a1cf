"""Finding out what this machine can confine commands by."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from confined import sandbox_by

WITHOUT_TEMPORARY_FILES = """
import json, tempfile
tempfile.tempdir = "/nowhere"
from cellwright.sandbox.mechanisms import find_sandbox, missing_means
sandbox = find_sandbox()
print(json.dumps([sandbox is not None and bool(sandbox.bubblewrap), dict(missing_means())]))
"""

ENDS_MEANWHILE = """
import os, pathlib, subprocess, sys
from cellwright.agent.calls.confinement import Confinement
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
