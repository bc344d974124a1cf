"""What a confined command does not find in its surroundings, and what confining it leaves as it was here."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

from msgspec import structs

from confined import Confined
from row_tables import for_each_row


def test_signals_stay_inside_without_the_scope_of_newer_systems(landlocked: Confined) -> None:
    """Landlock of Linux 6.2 to 6.11 has no scopes: the filter refuses, and says so, while the command itself goes on."""
    older = Confined(structs.replace(landlocked.sandbox, landlock=3), landlocked.private, landlocked.root)
    with subprocess.Popen(["sleep", "60"]) as other:
        ended = older.bash(f"kill {other.pid}; kill -9 {other.pid}; cat /proc/{other.pid}/environ; echo going on")
        assert other.poll() is None
        other.send_signal(signal.SIGKILL)
    assert ended.output.count("not permitted") == 2
    assert "going on" in ended.output


@for_each_row("name", ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "DOCKER_HOST", "JUPYTERHUB_API_URL"])
def test_ways_to_others_are_not_in_the_environment(name: str, confined: Confined) -> None:
    assert "gone" in confined.bash(f"echo ${{{name}-gone}}", environ={name: "/run/somewhere"}).output


def test_this_process_stays_free(confined: Confined, tmp_path: Path) -> None:
    confined.bash("true")
    (tmp_path / "new").write_text("x", "utf-8")
    (tmp_path / "new").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    assert "NoNewPrivs:\t0" in Path("/proc/self/status").read_text("utf-8")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
