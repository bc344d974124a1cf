"""`cellwright mcp serve` in a process of its own, called by the SDK's own client."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitResult

from cellwright.errors import CellwrightError
from cellwright.terminal.subcommands.extensions import mcp
from eventual import eventually
from forked.forked_python import program_in

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FENCE = "```"
CELLS = [
    {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": ["# Sales"]},
    {
        "cell_type": "code",
        "id": "c1",
        "metadata": {},
        "execution_count": 1,
        "source": ["print('```')"],
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": ["\x1b[31mtotal 3\x1b[0m\n"]},
            {"output_type": "display_data", "metadata": {}, "data": {"image/png": PIXEL, "text/plain": ["<Figure>"]}},
        ],
    },
]
OWN_TOOLS = [
    *("AnalyzeFunction", "CallChain", "CodeContext", "CodeMetrics", "CodeOutline", "Edit", "FileTree"),
    *("FindDefinitions", "FindReferences", "Git", "Glob", "Grep", "ImportChain", "LS", "NotebookEdit"),
    *("NotebookRead", "NotebookRun", "Python", "Read", "SemanticSearch", "SimilarCode", "Variables", "Write"),
]


@pytest.fixture
def project(tmp_path: Path, own_place: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    notebook = {"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "sales.ipynb").write_text(json.dumps(notebook), "utf-8")
    (folder / "notes.txt").write_text("hello\n", "utf-8")
    (folder / "pixel.png").write_bytes(base64.b64decode(PIXEL))
    (tmp_path / "outside.txt").write_text("not yours\n", "utf-8")
    (tmp_path / "outside.ipynb").write_text(json.dumps(notebook), "utf-8")
    return folder


@asynccontextmanager
async def serving(
    folder: Path, *words: str, mode: Any = "auto", elicitation_callback: Any = None, **environ: str
) -> AsyncIterator[Client]:
    command = ["-m", "cellwright.terminal.main", "mcp", "serve", *words]
    program = StdioServerParameters(
        command=program_in(os.environ),
        args=command,
        cwd=folder,
        env={**os.environ, **environ},
    )
    async with Client(program, mode=mode, elicitation_callback=elicitation_callback) as client:
        yield client


def play(scene: Callable[[], Any]) -> None:
    asyncio.run(scene())


def text_of(result: CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_files_and_notebooks_are_read_as_text_data_and_images(project: Path, mode: str) -> None:
    async def scene() -> None:
        async with serving(project, mode=mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert sorted(tools) == OWN_TOOLS
            assert [name for name in OWN_TOOLS if not tools[name].annotations.read_only_hint] == [
                "Edit",
                "NotebookEdit",
                "NotebookRun",
                "Python",
                "Write",
            ]
            read = await client.call_tool("NotebookRead", {"notebook_path": "sales.ipynb"})
            assert "# Sales" in text_of(read)
            assert read.structured_content["cells"] == [1, 2]
            picture = await client.call_tool("Read", {"file_path": "pixel.png"})
            assert [part.mime_type for part in picture.content if part.type == "image"] == ["image/png"]
            found = await client.call_tool("Grep", {"pattern": "hell"})
            assert "notes.txt" in text_of(found)

    play(scene)


PICTURE = f"""
import base64, os
from IPython.display import Image
print(os.environ.get("MY_API_KEY"))
Image(base64.b64decode({PIXEL!r}))
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_code_runs_in_a_kernel_of_its_own_after_a_yes(project: Path) -> None:
    asked: list[str] = []
    kernels: list[int] = []
    heard: list[str | None] = []

    async def on_progress(_progress: float, _total: float | None, message: str | None) -> None:
        heard.append(message)

    async def answer(_context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(
            action="accept", content={"answer": "Deny" if "os.remove" in params.message else "Allow once"}
        )

    async def scene() -> None:
        async with serving(project) as client:
            denied = await client.call_tool("Python", {"code": "1 + 1"})
            assert denied.is_error
            assert "Nobody can be asked" in text_of(denied)
        async with serving(project, elicitation_callback=answer, MY_API_KEY="a-token-0f-tests-4711") as client:
            given = {"notebook_path": "sales.ipynb", "cell_ids": ["c1"]}
            ran = await client.call_tool("NotebookRun", given, progress_callback=on_progress)
            assert not ran.is_error, text_of(ran)
            assert heard[-1] == "Cell 2 (1 of 1)"
            shown = await client.call_tool("Python", {"notebook_path": "sales.ipynb", "code": PICTURE})
            assert text_of(shown).startswith("None")
            assert [part.mime_type for part in shown.content if part.type == "image"] == ["image/png"]
            looked = await client.call_tool("Variables", {"notebook_path": "sales.ipynb", "include": "all"})
            assert "base64" in looked.structured_content["names"]
            assert (await client.call_tool("Python", {"code": "import os; os.remove('notes.txt')"})).is_error
            slow = asyncio.create_task(
                client.call_tool(
                    "Python", {"notebook_path": "sales.ipynb", "code": "print(1); __import__('time').sleep(600)"}
                )
            )
            while len(asked) < 4:
                await asyncio.sleep(0.01)
            slow.cancel()
            again = await client.call_tool(
                "Python", {"notebook_path": "sales.ipynb", "code": "os.kill(os.getpid(), 9)"}
            )
            assert "died" in text_of(again)
            anew = await client.call_tool("Variables", {"notebook_path": "sales.ipynb"})
            assert anew.structured_content["names"] == []
            said = await client.call_tool("Python", {"notebook_path": "sales.ipynb", "code": "import os; os.getpid()"})
            kernels.append(int(text_of(said)))

    play(scene)
    eventually(lambda: not is_alive(kernels[0]))
    assert (project / "notes.txt").is_file()
    assert "print('```')" in asked[0]
    cells = json.loads((project / "sales.ipynb").read_text("utf-8"))["cells"]
    assert "".join(cells[1]["outputs"][0]["text"]) == "```\n"


def test_a_kernel_that_starts_runs_no_module_of_the_folder(project: Path) -> None:
    (project / "ipykernel_launcher.py").write_text("open('ran-unasked', 'w').close()\n", "utf-8")
    (project / "own_module.py").write_text("answer = 42\n", "utf-8")

    async def yes(_context: Any, _params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"answer": "Allow once"})

    async def scene() -> None:
        async with serving(project, elicitation_callback=yes) as client:
            looked = await client.call_tool("Variables", {})
            assert not (project / "ran-unasked").exists()
            assert not looked.is_error, text_of(looked)
            code = await client.call_tool("Python", {"code": "import own_module; own_module.answer"})
            assert text_of(code) == "42", "code imports what is there, as in any kernel"

    play(scene)


TAKES_A_PORT = """
import json, pathlib, socket, sys
files = [each for each in sys.orig_argv if each.endswith(".json")]
first = pathlib.Path(__file__).with_name("first")
if "ipykernel_launcher" in sys.orig_argv and not first.exists():
    first.touch()
    taken = socket.create_server(("127.0.0.1", json.loads(pathlib.Path(files[0]).read_text())["shell_port"]))
"""


def test_a_kernel_whose_port_was_taken_is_started_anew(project: Path, tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(TAKES_A_PORT, "utf-8")

    async def scene() -> None:
        async with serving(project, PYTHONPATH=os.pathsep.join([str(modules), os.environ["PYTHONPATH"]])) as client:
            looked = await client.call_tool("Variables", {})
            assert not looked.is_error, text_of(looked)

    play(scene)
    assert (modules / "first").exists()


def test_notebooks_are_resources_as_markdown(project: Path) -> None:
    async def scene() -> None:
        async with serving(project, "--tools", "Read") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["Read"]
            assert [each.uri for each in (await client.list_resources()).resources] == ["notebook:///sales.ipynb"]
            page, image = (await client.read_resource("notebook:///sales.ipynb")).contents
            assert (image.mime_type, image.blob) == ("image/png", PIXEL)
            assert page.mime_type == "text/markdown"
            assert page.text == (
                f"# Sales\n\n{FENCE}`python\nprint('{FENCE}')\n{FENCE}`\n\n{FENCE}text\ntotal 3\n{FENCE}\n\n"
                f"{FENCE}text\n<Figure>\n[image 1]\n{FENCE}"
            )
            for uri in ("file:///etc/passwd", "notebook://host/sales.ipynb", "notebook:///", "notebook:///../outside.ipynb",
                        "notebook:///%2e%2e/outside.ipynb", "notebook:///notes.txt", "notebook:///none.ipynb"):  # fmt: skip
                with pytest.raises(MCPError):
                    await client.read_resource(uri)

    play(scene)


def test_what_no_rule_allows_is_denied_with_the_rule_that_would(project: Path) -> None:
    edit = {"notebook_path": "sales.ipynb", "cell_id": "m1", "new_source": "# Costs"}

    async def scene() -> None:
        async with serving(project) as client:
            await client.call_tool("NotebookRead", {"notebook_path": "sales.ipynb"})
            before = (project / "sales.ipynb").read_bytes()
            denied = await client.call_tool("NotebookEdit", edit)
            assert denied.is_error
            assert "would allow it" in text_of(denied)
            assert (project / "sales.ipynb").read_bytes() == before
        async with serving(project, "--allowed-tools", "Edit(*.ipynb)") as client:
            await client.call_tool("NotebookRead", {"notebook_path": "sales.ipynb"})
            assert not (await client.call_tool("NotebookEdit", edit)).is_error
            inserted = {**edit, "edit_mode": "insert", "cell_type": "code", "new_source": "1 + 1"}
            assert not (await client.call_tool("NotebookEdit", inserted)).is_error
            assert not (await client.call_tool("NotebookEdit", {**edit, "edit_mode": "delete"})).is_error
            cells = json.loads((project / "sales.ipynb").read_text("utf-8"))["cells"]
            assert ["".join(cell["source"]) for cell in cells] == ["1 + 1", "print('```')"]

    play(scene)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_clients_user_is_asked_where_the_client_can(project: Path, mode: str) -> None:
    answers = ["Deny", "Allow once", "Allow from now on"]
    asked: list[str] = []

    async def answer(_context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"answer": answers[len(asked) - 1]})

    def change(old: str, new: str) -> dict[str, str]:
        return {"file_path": "notes.txt", "old_string": old, "new_string": new}

    async def scene() -> None:
        async with serving(project, mode=mode, elicitation_callback=answer) as client:
            await client.call_tool("Read", {"file_path": "notes.txt"})
            denied = await client.call_tool("Edit", change("hello", "one"))
            assert denied.is_error
            assert (project / "notes.txt").read_text("utf-8") == "hello\n"
            for old, new in (("hello", "one"), ("one", "two"), ("two", "three")):
                done = await client.call_tool("Edit", change(old, new))
                assert not done.is_error, text_of(done)
            assert done.structured_content["files"][0]["type"] == "update"

    play(scene)
    assert len(asked) == 3
    assert "+one" in asked[0]
    assert (project / "notes.txt").read_text("utf-8") == "three\n"


def test_an_answer_is_taken_for_the_question_that_was_asked_alone(project: Path) -> None:
    async def never(_context: Any, _params: Any) -> ElicitResult:
        raise AssertionError("the calls carry their answers")

    yes = {"permission": ElicitResult(action="accept", content={"answer": "Allow once"})}

    async def scene() -> None:
        async with serving(project, elicitation_callback=never) as client:

            async def write(name: str, **more: Any) -> Any:
                given = {"file_path": name, "content": "made"}
                return await client.session.call_tool("Write", given, allow_input_required=True, **more)

            asked = await write("made.txt")
            assert asked.result_type == "input_required"
            unasked = [
                await write("other.txt", input_responses=yes, request_state=asked.request_state),
                await write("made.txt", input_responses=yes),
                await write("made.txt", input_responses=yes, request_state="0" * 64),
            ]
            assert [result.result_type for result in unasked] == ["input_required"] * 3
            assert not list(project.glob("*made*"))
            done = await write("made.txt", input_responses=yes, request_state=asked.request_state)
            assert not done.is_error

    play(scene)
    assert (project / "made.txt").is_file()
    assert not (project / "other.txt").exists()


def test_a_rule_that_the_user_adds_meanwhile_counts_at_once(project: Path, own_place: Path) -> None:
    given = {"file_path": "made.txt", "content": "made"}
    settings = own_place / ".claude" / "settings.json"
    settings.parent.mkdir()

    async def scene() -> None:
        async with serving(project) as client:
            assert (await client.call_tool("Write", given)).is_error
            settings.write_text(json.dumps({"permissions": {"allow": ["Edit"]}}), "utf-8")
            assert not (await client.call_tool("Write", given)).is_error

    play(scene)


def test_secrets_in_outputs_are_kept_back(project: Path) -> None:
    secret = "a-token-0f-tests-4711"
    cell = {**CELLS[1], "outputs": [{"output_type": "stream", "name": "stdout", "text": [f"it is {secret}"]}]}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (project / "sales.ipynb").write_text(json.dumps(notebook), "utf-8")

    async def scene() -> None:
        async with serving(project, MY_API_KEY=secret) as client:
            read = await client.call_tool("NotebookRead", {"notebook_path": "sales.ipynb"})
            page = (await client.read_resource("notebook:///sales.ipynb")).contents[0]
            for text in (text_of(read), page.text):
                assert "it is [secret removed: value of $MY_API_KEY]" in text

    play(scene)


def test_rules_and_hooks_of_the_settings_hold(project: Path, own_place: Path) -> None:
    (own_place / ".claude").mkdir()
    hook = {"matcher": "Glob", "hooks": [{"type": "command", "command": "echo no globbing today >&2; exit 2"}]}
    settings = {
        "permissions": {"deny": ["Read(notes.txt)", "Write"], "allow": ["Edit"]},
        "hooks": {"PreToolUse": [hook]},
    }
    (own_place / ".claude" / "settings.json").write_text(json.dumps(settings), "utf-8")

    async def scene() -> None:
        async with serving(project) as client:
            assert "Write" not in [tool.name for tool in (await client.list_tools()).tools]
            refused = [
                await client.call_tool("Read", {"file_path": "notes.txt"}),
                await client.call_tool("Glob", {"pattern": "*"}),
            ]
            assert [result.is_error for result in refused] == [True] * 2
            assert "no globbing today" in text_of(refused[1])
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("Write", {"file_path": "made.txt", "content": ""})
            assert not (project / "made.txt").exists()

    play(scene)


def test_a_folder_that_is_not_trusted_allows_itself_nothing(project: Path) -> None:
    settings = project / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"permissions": {"allow": ["Edit"], "deny": ["Read(notes.txt)"]}}), "utf-8")

    async def scene() -> None:
        async with serving(project) as client:
            assert (await client.call_tool("Write", {"file_path": "made.txt", "content": "made"})).is_error
            assert (await client.call_tool("Read", {"file_path": "notes.txt"})).is_error

    play(scene)
    assert not (project / "made.txt").exists()


def test_evil_calls_are_refused_and_the_next_one_is_served(project: Path) -> None:
    (project / "way_out").symlink_to(project.parent)
    calls = [
        ("Read", {"file_path": "../outside.txt"}),
        ("Read", {"file_path": str(project.parent / "outside.txt")}),
        ("Read", {"file_path": "way_out/outside.txt"}),
        ("Read", {"file_path": "/proc/self/environ"}),
        ("Read", {"file_path": "notes.txt\0"}),
        ("Read", {"file_path": 7}),
        ("Read", {"file_path": "x" * 100_000}),
        ("Grep", {"pattern": ".", "path": ".."}),
        ("LS", {"path": "/"}),
        ("NotebookRead", {"notebook_path": "../outside.ipynb"}),
        ("Write", {"file_path": ".git/hooks/pre-commit", "content": "x"}),
        ("Write", {"file_path": "large.txt", "content": "x" * (17 * 2**20)}),
    ]

    async def scene() -> None:
        async with serving(project, "--permission-mode", "acceptEdits") as client:
            taken = [name for name, arguments in calls if not (await client.call_tool(name, arguments)).is_error]
            assert taken == []
            for name in ("Bash", "x" * 10_000):
                with pytest.raises(MCPError, match="Unknown tool"):
                    await client.call_tool(name, {"command": "echo hi"})
            assert "hello" in text_of(await client.call_tool("Read", {"file_path": "notes.txt"}))

    play(scene)
    assert not (project / "large.txt").exists()
    assert not (project / ".git" / "hooks").exists()


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.mark.parametrize("end", ["Ctrl-C", "the client closes stdin"])
def test_it_ends_when_it_is_told_to(project: Path, end: str) -> None:
    process = subprocess.Popen(
        [program_in(os.environ), "-m", "cellwright.terminal.main", "mcp", "serve"],
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"no message\n" + json.dumps(HELLO).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "cellwright"
        if end == "Ctrl-C":
            process.send_signal(signal.SIGINT)
            assert process.wait() == -signal.SIGINT
        _, said = process.communicate()
        assert (process.returncode, said) == (-signal.SIGINT if end == "Ctrl-C" else 0, b"")


def test_what_cannot_be_served_is_said(project: Path) -> None:
    with pytest.raises(CellwrightError, match="Bash cannot be served"):
        mcp(["serve", "--tools", "Read,Bash"])
