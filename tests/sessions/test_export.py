"""`/export` and `/cells`: conversations over real HTTP, written down and read again."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from PIL import Image

from cellwright.agent.thread import AgentTask
from cellwright.agent.tool import ToolResult, tool
from cellwright.commands.command import CommandCall, CommandPage
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.sessions.export import code_cells, exchanges_of
from cellwright.sessions.provenance import provenance
from cellwright.testing import MessagesServer, say, think, turn, use
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import NothingOpen

AWS = "AKIA" + "IOSFODNN7EXAMPLE"


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("picture") / "p.png"
    Image.new("RGB", (4, 4), "red").save(path)
    return base64.b64encode(path.read_bytes()).decode()


class Talk:
    """A conversation that has taken place, and its commands."""

    def __init__(self, conversation: Conversation, options: RunOptions) -> None:
        self.conversation = conversation
        self.options = options

    def say(self, prompt: str) -> None:
        task = self.conversation.start(RunRequest(prompt=prompt, options=self.options), RunSurface())
        self.conversation.jobs.work_until_done(task)
        assert task.result().ok

    def do(self, command: str) -> CommandPage:
        found, text = command_of(command)
        call = CommandCall(self.conversation, self.options, text)
        task: AgentTask[CommandPage] = self.conversation.thread.submit(answer_of(found, call))
        self.conversation.jobs.work_until_done(task)
        return task.result()


class OpenFile(FileNotebook):
    """A notebook that a front end shows, for what matters here."""

    live = True  # type: ignore[assignment]


class Shown(NothingOpen):
    def __init__(self, path: Path) -> None:
        self.path = path

    def own(self) -> FileNotebook | None:
        return OpenFile(self.path)


@pytest.fixture
def talk_in(
    tmp_path: Path, own_place: Path, messages_server: Callable[..., MessagesServer], picture: str
) -> Iterator[Any]:
    """`talk_in(script, …)` gives a conversation in `tmp_path` whose Python gives back a picture."""
    made: list[Conversation] = []

    @tool(name="Python")
    async def python(code: str) -> ToolResult:
        """Run code."""
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture}}
        return ToolResult([{"type": "text", "text": f"ran {code}"}, image])

    def start(script: list[Any], **more: Any) -> Talk:
        server = messages_server(script)
        environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        conversation = Conversation(
            Host(cwd=tmp_path, interface="a test", environ={**environ, "PATH": "/usr/bin:/bin"}, **more)
        )
        made.append(conversation)
        return Talk(conversation, RunOptions(allow=("Python", "Bash", "Write"), tools=(python,)))

    yield start
    for conversation in made:
        conversation.close()


SCRIPT = [
    turn(think("Hm."), say("I look. <script>alert(1)</script>"), use("Python", code="x = 1\nx")),
    turn(use("Bash", command=f"echo {AWS} | wc -c"), use("Bash", command="false"), use("Bash", command="ls")),
    turn(use("Write", file_path="new.txt", content="new\n")),
    say("Done: **one**."),
    say("Nothing to do."),
]


def talked(talk_in: Any, **more: Any) -> Talk:
    talk = talk_in(SCRIPT, **more)
    talk.say("Count them\n> and quote")
    talk.say("And now?")
    return talk


def test_markdown_reads_as_the_conversation_did(talk_in, tmp_path):
    page = talked(talk_in).do("/export markdown talk.md")
    text = (tmp_path / "talk.md").read_text("utf-8")
    assert "## 1. You\n\n> Count them\n>\n> > and quote" in text
    assert "### Claude\n\nI look. &lt;script>" in text
    assert "<details><summary>✓ Python: x = 1 x</summary>\n\n```python\nx = 1\nx\n```\n\n```\nran x = 1\nx\n```" in text
    assert "<details><summary>✗ Bash: false</summary>" in text
    assert "Done: **one**." in text
    assert text.index("## 2. You") < text.index("> And now?") < text.index("Nothing to do.")
    assert "<details><summary>Told besides</summary>" in text
    assert "![image 1](talk_files/image-1.png)" in text
    assert Image.open(tmp_path / "talk_files" / "image-1.png").size == (4, 4)
    assert AWS not in text
    assert "AWS" in page.sections[0].text
    assert "2 turns" in page.sections[0].rows[1][1]


def test_a_notebook_is_valid_and_runs_claudes_python(talk_in, tmp_path, picture):
    talked(talk_in).do("/export talk.ipynb")
    notebook = nbformat.read(tmp_path / "talk.ipynb", as_version=4)
    nbformat.validate(notebook)
    (code,) = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code.source == "x = 1\nx"
    assert code.outputs[0].text == "ran x = 1\nx\n"
    assert code.outputs[1].data["image/png"] == picture
    assert [cell.source for cell in notebook.cells][-1] == "Nothing to do."
    assert AWS not in (tmp_path / "talk.ipynb").read_text("utf-8")


def test_json_holds_the_messages_without_signatures(talk_in, tmp_path):
    talk = talked(talk_in)
    talk.do("/export json talk.json")
    content = json.loads((tmp_path / "talk.json").read_text("utf-8"))
    assert (content["cellwright_conversation"], content["session"]) == (1, talk.conversation.sessions.current.id)
    assert [message["role"] for message in content["messages"]] == [
        m["role"] for m in talk.conversation.sessions.current.messages
    ]
    assert content["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm."}
    assert AWS not in json.dumps(content)


def test_nothing_is_overwritten_and_nothing_is_exported_from_nothing(talk_in, tmp_path):
    talk = talk_in([say("Hi.")])
    with pytest.raises(CellwrightError, match="Nothing to export"):
        talk.do("/export")
    talk.say("Hi")
    (tmp_path / "mine.md").write_text("mine")
    with pytest.raises(CellwrightError, match="already exists") as caught:
        talk.do("/export markdown mine.md")
    assert caught.value.code == ErrorCode.FILE_ACCESS_ERROR
    assert (tmp_path / "mine.md").read_text() == "mine"
    names = [Path(talk.do("/export").sections[0].rows[1][0]).name for _ in range(2)]
    assert names == [f"claude-{talk.conversation.sessions.current.id}{end}.md" for end in ("", "-2")]
    with pytest.raises(CellwrightError, match="ran no Python and no commands"):
        talk.do("/cells")


def test_what_claude_ran_becomes_cells_of_a_new_notebook(talk_in, tmp_path):
    page = talked(talk_in).do("/export cells")
    notebook = nbformat.read(Path(page.sections[0].rows[1][0]), as_version=4)
    nbformat.validate(notebook)
    heading, *cells = [cell.source for cell in notebook.cells]
    assert heading == "**1.** Count them > and quote"
    # what failed is left out, and a secret with it
    assert cells == ["x = 1\nx", "!echo [secret removed: AWS access key] | wc -c", "!ls"]
    assert "Edits of files are not among them: new.txt" in page.sections[0].text


def test_cells_go_after_the_cell_that_asked(talk_in, tmp_path):
    path = tmp_path / "n.ipynb"
    talk = talked(talk_in, open_notebooks=Shown(path))
    said = {
        "session": talk.conversation.sessions.current.id,
        "model": "m",
        "prompt_sha256": "0" * 64,
        "recording": None,
    }
    cells = []
    for number, name in enumerate(("before", "one", "two")):
        cell = nbformat.v4.new_code_cell(f"%%claude\n{name}", id=name)
        metadata = provenance(turn=number, **said) if number else {}
        cell.outputs = [nbformat.v4.new_output("display_data", {"text/plain": "A"}, metadata=metadata)]
        cells.append(cell)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)

    page = talk.do("/cells")

    sources = [cell.source for cell in nbformat.read(path, as_version=4).cells]
    made = ["x = 1\nx", "!echo [secret removed: AWS access key] | wc -c", "!ls"]
    assert sources == ["%%claude\nbefore", "%%claude\none", *made, "%%claude\ntwo"]
    assert page.sections[0].rows[1] == ("n.ipynb", "3 cells of turn 1, after cell one")
    with pytest.raises(CellwrightError, match="Turn 7 was not found"):
        talk.do("/cells 7")


def ran(*commands: str) -> list[str]:
    calls = [
        {"type": "tool_use", "id": str(i), "name": "Bash", "input": {"command": c}} for i, c in enumerate(commands)
    ]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "ok"} for call in calls]
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]
    return code_cells(exchanges_of(messages))


def test_a_command_that_ipython_would_change_goes_to_bash_itself():
    assert ran("ls -l", "echo $HOME", "ls\npwd", "awk '{print}' a") == [
        "!ls -l",
        "%%bash\necho $HOME",
        "%%bash\nls\npwd",
        "%%bash\nawk '{print}' a",
    ]


def test_only_pictures_that_the_api_takes_are_exported(picture: str):
    sources = [
        {"type": "base64", "media_type": "image/png", "data": picture},
        {"type": "base64", "media_type": "text/html", "data": picture},
        {"type": "base64", "media_type": "image/svg+xml", "data": picture},
        {"type": "base64", "media_type": "image/png", "data": "AA==)<img src=x onerror=alert(1)>"},
        {"type": "url", "url": "https://example.org/a.png"},
    ]
    message = {"role": "user", "content": [{"type": "image", "source": source} for source in sources]}
    (exchange,) = exchanges_of([message])
    assert exchange.images == sources[:1]
