"""What is common to all that is run: input, outputs, limits and the end. Real programs, on a real loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.tools.process.child_processes import ChildProcesses, Command, child_processes
from cellwright.tools.process.runner import OutputHead, RunningProgram, child_environment
from eventual import SECONDS, eventually
from processes.marked_processes import marked, wait_until_gone
from processes.this_process import open_files, threads
from row_tables import for_each_row

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are counted in /proc")

ENOUGH = 1_000_000
FAMILY = "(setsid sleep 1000 &) ; sleep 1000 & trap '' TERM INT; echo ready; while :; do sleep 1000; done"
"""Deaf, with a child in its group and one that left it."""


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """A loop that cannot wait for pipes, as on Windows."""

    def add_reader(self, *_: Any) -> None:
        raise NotImplementedError

    def add_writer(self, *_: Any) -> None:
        raise NotImplementedError


@pytest.fixture(params=[asyncio.SelectorEventLoop, LoopWithoutReaders])
def play(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a scene on a loop of each kind."""

    def play(scene: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(asyncio.wait_for(scene, SECONDS))

    return play


class Place:
    """A folder to run in, with an environment by which its processes are found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marker = f"RUNNER_TEST=mark-{os.getpid()}-{time.monotonic_ns()}"

    def command(self, *arguments: str, **more: Any) -> Command:
        environ = {"PATH": os.environ["PATH"], **dict([self.marker.split("=", 1)])}
        return Command(arguments=arguments, cwd=self.folder, environ=environ | more.pop("environ", {}), **more)

    def shell(self, script: str, **more: Any) -> Command:
        return self.command("bash", "--norc", "-c", script, **more)

    def wait_until_gone(self) -> None:
        """Wait until nothing runs here."""
        wait_until_gone(self.marker)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for pid in marked(place.marker):
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, signal.SIGKILL)


async def outputs(command: Command, source: bytes = b"", most: int = ENOUGH) -> tuple[int, str, str]:
    output, errors = OutputHead(most), OutputHead(most)
    program = RunningProgram(command, output=output.take, errors=errors.take, source=source)
    assert await program.finish(SECONDS)
    return program.exit_code, output.text(), errors.text()


async def started(command: Command, **more: Any) -> RunningProgram:
    """A program that has written something."""
    written = asyncio.Event()

    def take(chunk: bytes) -> bool:
        written.set()
        return True

    program = RunningProgram(command, output=take, **more)
    await written.wait()
    return program


def test_output_and_errors_come_apart_or_together(place, play):
    script = "echo out; echo err >&2; exit 3"
    assert play(outputs(place.shell(script))) == (3, "out\n", "err\n")

    async def together() -> str:
        both = OutputHead(ENOUGH)
        await RunningProgram(place.shell(script), output=both.take).wait()
        return both.text()

    assert play(together()) == "out\nerr\n"


def test_the_input_arrives_whole(place, play):
    source = bytes(range(256)) * 4_000

    async def scene() -> bytes:
        output = OutputHead(2 * ENOUGH)
        await RunningProgram(place.command("cat"), output=output.take, source=source).wait()
        return bytes(output.data)

    assert play(scene()) == source


def test_without_an_input_there_is_none(place, play):
    assert play(outputs(place.shell("cat; echo end"))) == (0, "end\n", "")


def test_a_program_need_not_read_its_input(place, play):
    assert play(outputs(place.command("true"), source=b"x" * ENOUGH)) == (0, "", "")


def test_output_goes_to_descriptors_where_it_shall(place, play):
    async def scene() -> str:
        errors = OutputHead(ENOUGH)
        with (place.folder / "file").open("wb") as file:
            program = RunningProgram(place.shell("echo out; echo err >&2"), output=file.fileno(), errors=errors.take)
            await program.wait()
        await RunningProgram(place.shell("echo x"), output=subprocess.DEVNULL, errors=subprocess.DEVNULL).wait()
        return errors.text()

    assert play(scene()) == "err\n"
    assert (place.folder / "file").read_text() == "out\n"


def test_what_is_more_than_is_kept_is_read_and_thrown_away(place, play):
    code, output, _ = play(outputs(place.shell("head -c 3000000 /dev/zero | tr '\\0' x; exit 5"), most=10))
    assert (code, output) == (5, "x" * 10)


def test_it_is_ended_when_there_is_enough(place, play):
    async def scene() -> tuple[int, bool]:
        calls = 0

        def take(chunk: bytes) -> bool:
            nonlocal calls
            calls += 1
            return False

        program = RunningProgram(place.command("yes"), output=take)
        assert await program.finish(SECONDS)
        return calls, program.had_enough

    assert play(scene()) == (1, True)
    place.wait_until_gone()


@pytest.mark.parametrize("read_only", [False, True])
def test_an_end_that_comes_by_itself_is_not_had_enough(place, play, read_only):
    async def scene() -> tuple[int, bool]:
        program = RunningProgram(place.command("echo", "x", read_only=read_only), output=lambda _: True)
        return await program.finish(SECONDS), program.had_enough

    assert play(scene()) == (True, False)


def test_when_its_time_is_over_all_that_it_started_ends(place, play):
    async def scene() -> bool:
        program = await started(place.shell(FAMILY))
        return await program.finish(0.05)

    assert play(scene()) is False
    place.wait_until_gone()


def test_it_is_asked_before_it_is_killed(place, play):
    async def scene() -> tuple[int, str]:
        output = OutputHead(ENOUGH)
        ready = asyncio.Event()

        def take(chunk: bytes) -> bool:
            ready.set()
            return output.take(chunk)

        command = place.shell("trap 'echo asked; exit 7' TERM; echo ready; while :; do :; done")
        program = RunningProgram(command, output=take)
        await ready.wait()
        await program.end()
        return program.exit_code, output.text()

    assert play(scene()) == (7, "ready\nasked\n")


def test_it_is_asked_once(place, play):
    async def scene() -> str:
        output = OutputHead(ENOUGH)
        ready = asyncio.Event()

        def take(chunk: bytes) -> bool:
            ready.set()
            return output.take(chunk)

        # it goes on for a while, so that being asked again would be seen
        command = place.shell("trap 'echo asked' TERM; echo ready; while :; do :; done")
        program = RunningProgram(command, output=take)
        await ready.wait()
        await program.end()
        return output.text()

    assert play(scene()) == "ready\nasked\n"


def test_what_only_reads_is_killed_at_once(place, play):
    async def scene() -> int:
        program = await started(place.shell("trap 'exit 7' TERM; echo x; while :; do :; done", read_only=True))
        await program.end()
        return program.exit_code

    assert play(scene()) == -signal.SIGKILL, "it was not asked"


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("cancels", [1, 2])
def test_cancelled_it_ends_all_that_it_started(place, play, read_only, cancels):
    script = "echo ready; exec sleep 1000" if read_only else FAMILY

    async def scene() -> None:
        program = await started(place.shell(script, read_only=read_only))
        waiting = asyncio.create_task(program.wait())
        for _ in range(cancels):
            await asyncio.sleep(0)
            waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await program.ended

    play(scene())
    place.wait_until_gone()


def test_where_the_loop_is_closed_it_is_killed(place, play):
    ended = []

    async def scene() -> None:
        await started(place.shell(FAMILY), at_end=lambda: ended.append(True))

    play(scene())
    place.wait_until_gone()
    assert ended == [True]


def test_what_it_leaves_in_the_background_is_not_waited_for(place, play):
    async def scene() -> tuple[str, bool]:
        output = OutputHead(ENOUGH)
        program = RunningProgram(place.shell("sleep 1000 & echo x"), output=output.take)
        assert await program.wait(SECONDS)
        return output.text(), program.left_behind

    assert play(scene()) == ("x\n", True)
    assert len(marked(place.marker)) == 1


def test_a_descriptor_may_be_handed_on(place, play):
    async def scene() -> bytes:
        reader, writer = os.pipe()
        try:
            command = place.shell(f"echo told >&{writer}", memory_mb=500)
            await RunningProgram(command, output=subprocess.DEVNULL, inherited=(writer,)).wait()
            return os.read(reader, 100)
        finally:
            os.close(reader)
            os.close(writer)

    assert play(scene()) == b"told\n"


def test_memory_is_bounded_for_it_and_for_what_it_starts(place, play):
    eat = f"{sys.executable} -c 'x = bytearray(400_000_000)'"
    for script in (f"exec {eat}", f"{eat}; true", f"bash -c '{eat.replace(chr(39), chr(34))}; true'"):
        _, _, errors = play(outputs(place.shell(script, memory_mb=200)))
        assert "MemoryError" in errors, script
    reader = place.command(sys.executable, "-c", "input(); x = bytearray(400_000_000)", memory_mb=200, read_only=True)
    assert "MemoryError" in play(outputs(reader, source=b"\n"))[2]
    assert "MemoryError" not in play(outputs(place.shell(eat)))[2]


def test_a_bounded_program_has_the_whole_environment(place, play):
    environ = {"a.b": "1 2", "-x": "3", "plain": "4"}
    script = f'{sys.executable} -c \'import os; print([os.environ[name] for name in ("a.b", "-x", "plain")])\''
    for memory_mb in (None, 1_000):
        assert play(outputs(place.shell(script, environ=environ, memory_mb=memory_mb)))[1] == "['1 2', '3', '4']\n"


@pytest.mark.parametrize("memory_mb", [None, 1_000])
@pytest.mark.parametrize(
    ("program", "code"),
    [("no-such-program", errno.ENOENT), ("./no-such-program", errno.ENOENT), ("./not-executable", errno.EACCES)],
)
def test_what_cannot_be_started_is_an_error_that_leaves_nothing_open(place, play, memory_mb, program, code):
    (place.folder / "not-executable").write_text("#!/bin/sh\n")

    async def scene() -> int:
        child_processes().watch()  # it keeps its pipe
        before = open_files()
        with pytest.raises(OSError) as caught:  # noqa: PT011  its number is looked at
            RunningProgram(
                place.command(program, memory_mb=memory_mb), output=lambda _: True, errors=lambda _: True, source=b"x"
            )
        assert open_files() <= before  # what an earlier test has left may be closed meanwhile
        return caught.value.errno or 0

    assert play(scene()) == code


def test_no_descriptors_and_no_threads_are_left(place, play):
    play(outputs(place.command("true")))
    before = open_files(), threads()

    async def many() -> None:
        await asyncio.gather(*(outputs(place.shell("cat | cat"), source=b"x" * ENOUGH) for _ in range(10)))
        assert not await RunningProgram(place.command("sleep", "1000"), output=lambda _: True, source=b"x").finish(0.01)

    play(many())
    eventually(lambda: (open_files() - before[0], threads() - before[1]), lambda more: not any(more))


def test_it_is_a_child_of_those_it_was_started_as(place, play):
    async def scene() -> None:
        children = ChildProcesses()
        program = await started(place.shell("echo x; sleep 1000"), children=children)
        assert children.running
        children.stop()
        await program.ended

    play(scene())
    place.wait_until_gone()


@for_each_row(
    "name",
    [
        *(
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "OPENAI_API_KEY",
        ),
        *("openai_api_key", "GEMINI_APIKEY", "GITHUB_TOKEN", "GH_TOKEN", "HF_TOKEN", "NPM_TOKEN", "GITLAB_PAT"),
        *(
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_SECURITY_TOKEN",
            "AWS_BEARER_TOKEN_BEDROCK",
        ),
        *(
            "AWS_CONTAINER_AUTHORIZATION_TOKEN",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "AZURE_CLIENT_SECRET",
            "JUPYTER_TOKEN",
        ),
        *("JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "JPY_PARENT_PID", "JPY_SESSION_NAME", "DB_PASSWORD", "PGPASSWORD"),
        *("MYSQL_PWD", "REDIS_PASS", "MY_SECRET_THING", "SECRETKEY", "SSH_KEY", "STRIPE_KEY", "SENTRY_DSN", "NPM_AUTH"),
        *("SESSION_COOKIE", "GPG_PASSPHRASE", "SLACK_TOKENS", "CELLWRIGHT_SEARCH_API_KEY", "DB_CONNECTION_STRING"),
    ],
)
def test_secrets_are_withheld_by_name(name):
    assert name not in child_environment({name: "value"})


@for_each_row(
    "value",
    [
        *(
            "sk-ant-api03-abcdefgh",
            "ghp_abcdefgh12345678",
            "github_pat_abcdefgh1234",
            "xoxb-12345678-abc",
            "AKIAABCDEFGH1234",
        ),
        *("glpat-abcdefgh1234", "hf_abcdefgh1234", "eyJhbGciOi.eyJzdWIiOi.abc", "-----BEGIN RSA PRIVATE KEY-----\nx"),
        *("postgres://ada:secret@host/db", "https://user:pw@example.org/x"),
    ],
)
def test_secrets_are_withheld_by_value(value):
    assert "INNOCENT" not in child_environment({"INNOCENT": value})


@for_each_row(
    "name",
    [
        *(
            "BASH_ENV",
            "ENV",
            "BASH_FUNC_ls%%",
            "SHELLOPTS",
            "BASHOPTS",
            "PS4",
            "PROMPT_COMMAND",
            "CDPATH",
            "GLOBIGNORE",
        ),
        *("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "PYTHONSTARTUP", "PYTHONINSPECT", "PERL5OPT", "RUBYOPT"),
        *("LESSOPEN", "GIT_EXTERNAL_DIFF", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"),
    ],
)
def test_what_would_run_code_or_colour_output_goes(name):
    assert name not in child_environment({name: "x"})


@for_each_row(
    ("name", "value"),
    [
        *(("HOME", "/home/ada"), ("LANG", "C.UTF-8"), ("PWD", "/x"), ("OLDPWD", "/y"), ("SSH_AUTH_SOCK", "/tmp/agent")),
        *(("AWS_REGION", "eu-1"), ("AWS_PROFILE", "dev"), ("AWS_CA_BUNDLE", "/ca.pem"), ("SSL_CERT_FILE", "/ca.pem")),
        *(("LD_LIBRARY_PATH", "/cuda"), ("PYTHONPATH", "/src"), ("VIRTUAL_ENV", "/venv"), ("CONDA_PREFIX", "/conda")),
        *(("TOKENIZERS_PARALLELISM", "false"), ("KEYBOARD", "us"), ("CUDA_VISIBLE_DEVICES", "0"), ("DISPLAY", ":0")),
        *(
            ("HTTPS_PROXY", "http://user:pw@proxy:3128"),
            ("http_proxy", "http://proxy"),
            ("EDITOR", "vim"),
            ("URL", "https://x.org"),
        ),
        *(("MPLBACKEND", "agg"), ("NODE_OPTIONS", "--max-old-space-size=4096"), ("AUTHOR", "Ada"), ("MONKEY", "x")),
    ],
)
def test_the_rest_stays(name, value):
    assert child_environment({name: value})[name] == value


def test_what_is_added():
    environ = child_environment({"PAGER": "less", "GIT_PAGER": "delta", "TERM": "xterm-color", "CLAUDECODE": "0"})
    expected = {"CLAUDECODE": "1", "PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0"}
    expected["GIT_OPTIONAL_LOCKS"] = "0"
    assert {name: environ[name] for name in expected} == expected


@pytest.mark.parametrize(
    "users",
    [
        {},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "diff.noprefix", "GIT_CONFIG_VALUE_0": "true"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "diff.autoRefreshIndex", "GIT_CONFIG_VALUE_0": "true"},
    ],
)
def test_git_diff_leaves_the_index_as_it_is(tmp_path, users):
    environ = child_environment({**os.environ, **users})

    def git(*arguments: str) -> str:
        name = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        command = ["git", *name, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environ, check=True, capture_output=True, text=True).stdout

    file = tmp_path / "notes.txt"
    file.write_text("one\n")
    git("init", "-q")
    git("add", "notes.txt")
    git("commit", "-qm", "first")
    os.utime(file, (1, 1))
    index = (tmp_path / ".git" / "index").read_bytes()
    assert git("diff") == ""
    assert (tmp_path / ".git" / "index").read_bytes() == index
    file.write_text("two\n")
    own = "+++ notes.txt" if "diff.noprefix" in users.values() else "+++ b/notes.txt"
    assert f"{own}\n@@ -1 +1 @@\n-one\n+two\n" in git("diff")


def test_secret_settings_of_git_stay_here():
    settings = [
        ("http.extraHeader", "Authorization: x"),
        ("user.name", "Ada"),
        ("github.token", "x"),
        ("core.abbrev", "9"),
    ]
    given = {
        f"GIT_CONFIG_{kind}_{n}": pair[at]
        for n, pair in enumerate(settings)
        for at, kind in enumerate(("KEY", "VALUE"))
    }
    environ = child_environment({**given, "GIT_CONFIG_COUNT": str(len(settings))})
    kept = [(environ[f"GIT_CONFIG_KEY_{n}"], environ[f"GIT_CONFIG_VALUE_{n}"]) for n in range(3)]
    assert kept == [("user.name", "Ada"), ("core.abbrev", "9"), ("diff.autoRefreshIndex", "false")]
    assert environ["GIT_CONFIG_COUNT"] == "3"
    assert "GIT_CONFIG_KEY_3" not in environ


def test_a_count_that_git_refuses_is_left_to_git():
    assert child_environment({"GIT_CONFIG_COUNT": "many"})["GIT_CONFIG_COUNT"] == "many"


def test_the_notebooks_matplotlib_backend_is_not_a_scripts():
    assert "MPLBACKEND" not in child_environment({"MPLBACKEND": "module://matplotlib_inline.backend_inline"})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr/bin:/bin", "/venv/bin:/usr/bin:/bin"),
        ("/usr/bin:/venv/bin:/bin", "/venv/bin:/usr/bin:/bin"),
        # an empty or relative entry would run what the folder brings along
        (".:/usr/bin::bin:/bin:", "/venv/bin:/usr/bin:/bin"),
        ("", "/venv/bin"),
    ],
)
def test_this_interpreters_programs_go_first(path, expected):
    assert child_environment({"PATH": path}, Path("/venv/bin"))["PATH"] == expected


def test_without_a_path_there_is_one():
    first, *rest = child_environment({})["PATH"].split(":")
    assert first == str(Path(sys.executable).parent)
    assert rest


def test_what_is_given_is_not_changed():
    environ = {"ANTHROPIC_API_KEY": "x", "PATH": "/bin"}
    child_environment(environ)
    assert environ == {"ANTHROPIC_API_KEY": "x", "PATH": "/bin"}
