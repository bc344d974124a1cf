"""`cellwright setup`: IPython loads Cellwright whenever it starts, until `--remove`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KNOWN = "print('known:', get_ipython().find_cell_magic('claude') is not None)"


def ipython(folder: Path) -> str:
    """What IPython of the profile below `folder` says when it starts."""
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c", KNOWN]
    environ = {**os.environ, "IPYTHONDIR": str(folder)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_magic_is_there_until_it_is_taken_out(command_for, messages_server, tmp_path):
    command, folder = command_for(messages_server([])), tmp_path / "ipython"
    unasked = command.run("setup", IPYTHONDIR=str(folder))
    assert (unasked.returncode, "Nothing was changed" in unasked.stdout) == (0, True), "nobody was there to say yes"
    assert ipython(folder) == "known: False\n"
    done = command.run("setup", "--yes", IPYTHONDIR=str(folder))
    assert "05-cellwright.py" in done.stdout
    assert ipython(folder) == "known: True\n"
    assert "already" in command.run("setup", IPYTHONDIR=str(folder)).stdout
    gone = command.run("setup", "--remove", IPYTHONDIR=str(folder))
    assert gone.stdout.startswith("Taken out: ")
    assert ipython(folder) == "known: False\n"
    assert "Nothing to take out" in command.run("setup", "--remove", IPYTHONDIR=str(folder)).stdout
