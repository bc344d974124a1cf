"""A server of the tests' own ends for certain, and no test waits for it."""

import signal
import subprocess
import sys

from lab_server import end_group

DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\nsignal.pause()"


def test_what_does_not_end_when_it_is_asked_to_is_killed():
    command = [sys.executable, "-c", DEAF]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "deaf\n"
        end_group(process, 0.1)
        assert process.returncode == -signal.SIGKILL
