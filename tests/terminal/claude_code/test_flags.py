"""Claude Code's flags, row by row of the table in docs/coming-from-claude-code.md, by the command called `claude`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from cellwright.terminal.arguments import parser
from cellwright.terminal.claude_code.flags import COMMANDS, FLAGS
from cellwright.testing import MessagesServer, fault, say, use

Server = Callable[..., MessagesServer]
For = Callable[..., Any]
Done = CompletedProcess[str]

DOCUMENT = Path(__file__).parents[3] / "docs" / "coming-from-claude-code.md"
TOUCH = use("Bash", command="touch made")
HELLO = say("Hello.")


@dataclass(frozen=True)
class Row:
    """One row of the table of flags that are taken."""

    flags: tuple[str, ...]
    example: str


def rows() -> Iterator[Row]:
    text = DOCUMENT.read_text("utf-8")
    table = text[text.index("| flag | for example |") : text.index("Taken without effect")]
    for line in table.splitlines()[2:]:
        if line.strip():
            flags, example = re.findall(r"^\| (.+?) \| `(.+?)` \|", line)[0]
            yield Row(tuple(re.findall(r"`(-[^`]+)`", flags)), example)


def why_of(heading: str) -> dict[str, str]:
    """The flags below the heading, each with its reason."""
    text = DOCUMENT.read_text("utf-8")
    table = text[text.index(heading) :].split("\n\n")[1]
    cells = [re.findall(r"^\| (.+?) \| (.+) \|$", line)[0] for line in table.splitlines()[2:]]
    return {flag: why for flags, why in cells for flag in re.findall(r"`(-[^`]+)`", flags)}


class Scene:
    """What became of one example: the server's requests, the process, the folder."""

    def __init__(self, server: MessagesServer, done: Done, folder: Path) -> None:
        self.server, self.done, self.folder = server, done, folder

    @property
    def body(self) -> dict[str, Any]:
        return self.server.requests[-1].body

    @property
    def system(self) -> str:
        return "\n".join(block["text"] for block in self.body["system"])

    @property
    def tools(self) -> set[str]:
        return {tool["name"] for tool in self.server.requests[0].body["tools"]}

    @property
    def results(self) -> str:
        return json.dumps(self.body["messages"][-1])

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.done.stdout.splitlines()]

    @property
    def made(self) -> bool:
        return (self.folder / "made").exists()


Check = Callable[[Scene], bool]


@dataclass(frozen=True)
class Play:
    """How the example of a flag is played: the model's script, what came before, and what must be so afterwards."""

    check: Check
    script: Sequence[Any] = (HELLO,)
    before: Sequence[str] = ()
    piped: str = ""
    code: int = 0


SERVER = Path(__file__).parents[2] / "shared" / "mcp_servers" / "plain_server.py"
PLAIN = {"command": sys.executable, "args": [str(SERVER), "--answers"]}
ID = "7f3c1a52-98d4-4c55-9a3e-0a4f1d2b6c11"
MESSAGES = "".join(
    json.dumps({"type": "user", "message": {"role": "user", "content": text}}) + "\n" for text in ("one", "two")
)
TALKED = ("claude -p 'remember the sea' --output-format json | jq -r .session_id > id",)
TWICE = (HELLO, HELLO)


def kinds(scene: Scene) -> list[str]:
    return [line["type"] for line in scene.lines]


def knows_the_sea(scene: Scene) -> bool:
    return "remember the sea" in json.dumps(scene.body["messages"]) and scene.done.stdout == "Hello.\n"


def transcripts(scene: Scene) -> list[Path]:
    return list((scene.folder.parent / "home" / "state" / "sessions").rglob("*.jsonl"))


SET_UP = """mkdir -p "$HOME/.claude"
cat > "$HOME/.claude/answer.jq" <<'END'
{systemMessage: "ready", hookSpecificOutput: {hookEventName: "Setup", additionalContext: ("built for " + .trigger)}}
END
cat > "$HOME/.claude/settings.json" <<'END'
{"hooks": {
  "Setup": [{"matcher": "init|maintenance", "hooks": [
    {"type": "command", "command": "touch made; jq -f ~/.claude/answer.jq"}]}],
  "SessionStart": [{"hooks": [{"type": "command", "command": "test -e made || touch too-early"}]}]}}
END"""


PLAYS: dict[str, Play] = {
    "--model": Play(lambda scene: scene.body["model"] == "claude-sonnet-5-5"),
    "--fallback-model": Play(
        lambda scene: (
            [request.body["model"] for request in scene.server.requests] == ["claude-opus-5-5", "claude-sonnet-5-5"]
        ),
        (fault("status", status=404, error_type="not_found_error", message="model: claude-opus-5-5"), HELLO),
    ),
    "--effort": Play(lambda scene: scene.body["output_config"]["effort"] == "low"),
    "--max-turns": Play(lambda scene: len(scene.server.requests) == 1, (TOUCH, HELLO), code=6),
    "--max-budget-usd": Play(lambda scene: scene.server.requests == [], code=7),
    "--allowedTools": Play(lambda scene: scene.made, (TOUCH, HELLO)),
    "--disallowedTools": Play(
        lambda scene: "Bash" not in scene.tools and "Edit" in scene.tools and "Write" in scene.tools
    ),
    "--tools": Play(lambda scene: scene.tools == {"Read", "Grep"}),
    "--permission-mode": Play(lambda scene: scene.made, (TOUCH, HELLO)),
    "--dangerously-skip-permissions": Play(lambda scene: scene.made, (TOUCH, HELLO)),
    "--permission-prompts": Play(lambda scene: "Nobody can be asked" in scene.results, (TOUCH, HELLO)),
    "--permission-prompt-tool": Play(
        lambda scene: scene.made and "no Write today" in scene.results and not (scene.folder / "b.txt").exists(),
        (use("Bash", command="touch other"), use("Write", file_path="b.txt", content="b"), HELLO),
        (f"echo '{json.dumps({'mcpServers': {'plain': PLAIN}})}' > servers.json",),
    ),
    "--add-dir": Play(
        lambda scene: "the lib" in scene.results,
        (use("Read", file_path="../lib/note.txt"), HELLO),
        ("mkdir -p ../lib ../apps; echo 'the lib' > ../lib/note.txt",),
    ),
    "--mcp-config": Play(
        # what servers do then is tried in test_mcp.py
        lambda scene: scene.done.stdout == "Hello.\n" and "--mcp-config" not in scene.done.stderr,
        before=('echo \'{"mcpServers": {"notes": {}}}\' > servers.json',),
    ),
    "--agents": Play(
        lambda scene: (
            sum("You are a poet." in str(request.body["system"]) for request in scene.server.requests) == 1
            and "the sea" in scene.results
        ),
        (use("Agent", description="write", prompt="Write.", subagent_type="poet"), say("the sea"), HELLO),
    ),
    "--settings": Play(lambda scene: scene.made, (TOUCH, HELLO)),
    "--setting-sources": Play(
        lambda scene: scene.body["model"] == "claude-opus-5-5" and "permission" not in scene.done.stderr,
        before=('mkdir .claude; echo \'{"permissions": {"deny": ["Bash("]}}\' > .claude/settings.json',),
    ),
    "--plugin-dir": Play(
        lambda scene: "demo:look" in json.dumps(scene.body["messages"]),
        before=(
            "mkdir -p demo/.claude-plugin demo/skills/look",
            """echo '{"name": "demo"}' > demo/.claude-plugin/plugin.json""",
            "printf -- '---\\nname: look\\ndescription: Looks.\\n---\\nLook.\\n' > demo/skills/look/SKILL.md",
        ),
    ),
    "--bare": Play(
        lambda scene: not scene.made and "the instructions" not in json.dumps(scene.body["messages"]),
        before=(
            "echo the instructions > CLAUDE.md",
            'mkdir -p "$HOME/.claude"; echo \'{"hooks": {"UserPromptSubmit": [{"hooks": '
            '[{"type": "command", "command": "touch made"}]}]}}\' > "$HOME/.claude/settings.json"',
        ),
    ),
    "--continue": Play(knows_the_sea, TWICE, TALKED),
    "--resume": Play(knows_the_sea, TWICE, (*TALKED,)),
    "--fork-session": Play(lambda scene: knows_the_sea(scene) and len(transcripts(scene)) == 2, TWICE, TALKED),
    "--session-id": Play(lambda scene: next(Path(scene.folder.parent / "home").rglob(f"{ID}.jsonl"), None) is not None),
    "--init": Play(
        lambda scene: "built for " in json.dumps(scene.body["messages"]) and not (scene.folder / "too-early").exists(),
        before=(SET_UP,),
    ),
    "--init-only": Play(
        lambda scene: scene.made and scene.server.requests == [] and scene.done.stdout == "ready\n", before=(SET_UP,)
    ),
    "--no-session-persistence": Play(lambda scene: transcripts(scene) == [] and scene.done.stdout == "Hello.\n"),
    "--system-prompt": Play(lambda scene: scene.system == "You are a poet."),
    "--system-prompt-file": Play(
        lambda scene: scene.system == "From a file.\n", before=("echo From a file. > prompt.txt",)
    ),
    "--agent": Play(
        lambda scene: "plan" in scene.system and "Read" in scene.tools and not {"Edit", "Write", "Bash"} & scene.tools
    ),
    "--append-system-prompt": Play(lambda scene: scene.system.endswith("\nBe brief.") and "Cellwright" in scene.system),
    "--append-system-prompt-file": Play(
        lambda scene: scene.system.endswith("From a file.\n") and "Cellwright" in scene.system,
        before=("echo From a file. > prompt.txt",),
    ),
    "--output-format": Play(lambda scene: json.loads(scene.done.stdout)["result"] == "Hello."),
    "--include-partial-messages": Play(
        lambda scene: (
            [
                line["event"]["delta"]["text"]
                for line in scene.lines
                if line["type"] == "stream_event" and line["event"]["type"] == "content_block_delta"
            ]
            == ["Hello."]
        )
    ),
    "--input-format": Play(lambda scene: kinds(scene) == ["system", "assistant", "result"] * 2, TWICE, piped=MESSAGES),
    "--replay-user-messages": Play(
        lambda scene: kinds(scene) == ["user", "system", "assistant", "result"] * 2, TWICE, piped=MESSAGES
    ),
    "--json-schema": Play(
        lambda scene: json.loads(scene.done.stdout)["structured_output"] == {"a": 1}, (say('{"a": 1}'),)
    ),
    "--verbose": Play(
        lambda scene: (
            [message["type"] for message in json.loads(scene.done.stdout)] == ["system", "assistant", "result"]
        )
    ),
    "--debug": Play(lambda scene: scene.done.stdout == "Hello.\n" and "`api,hooks` has no effect" in scene.done.stderr),
    "--version": Play(lambda scene: re.fullmatch(r"\d+\.\d+\.\d+ \(Cellwright\)\n", scene.done.stdout) is not None),
}


@pytest.mark.thorough
@pytest.mark.timeout(1_200)  # a process for each row
def test_every_flag_of_the_table_does_what_it_says(
    messages_server: Server, shell_for: For, own_place: Path, tmp_path: Path
) -> None:
    wrong = []
    for number, (row, flag) in enumerate((each, flag) for each in rows() for flag in each.flags):
        play = PLAYS[row.flags[0]]
        shell = shell_for(server := messages_server(list(play.script)), f"row{number}")
        home = shell.folder.parent / "home"
        home.mkdir()
        place = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "state"), "IS_SANDBOX": "1"}
        for line in play.before:
            assert shell.run(line, **place).returncode == 0
        example = row.example.replace(row.flags[0], flag).replace("$ID", '"$(cat id)"')
        prompt = "" if play.piped else '"hi"'
        done = shell.run(f"claude -p {prompt} {example}", piped=play.piped, **place)
        scene = Scene(server, done, shell.folder)
        if done.returncode != play.code or server.rejected or not play.check(scene):
            wrong.append(f"{flag}: {done.returncode}\n{done.stdout[-600:]}\n{done.stderr[-600:]}\n{server.rejected}")
        home.rename(tmp_path / f"home{number}")
    assert wrong == []


def test_the_tables_say_what_is_taken() -> None:
    taken = {flag for row in rows() for flag in row.flags}
    ours = {option for action in parser()._actions for option in action.option_strings}
    assert {name for name, flag in FLAGS.items() if flag.ours} <= taken
    assert {flag for flag in taken if flag not in FLAGS and flag not in ours} == set()
    assert why_of("Taken without effect") == {
        name: flag.why for name, flag in FLAGS.items() if not flag.ours and not flag.refused
    }
    assert why_of("Refused, since") == {name: flag.why for name, flag in FLAGS.items() if flag.refused}


def test_flags_without_effect_are_named_once(messages_server: Server, shell_for: For) -> None:
    shell = shell_for(messages_server([HELLO]))
    unused = {name: flag for name, flag in FLAGS.items() if not flag.ours and not flag.refused}
    words = [
        word for name, flag in unused.items() for word in ([name, "x"] if flag.takes in ("one", "many") else [name])
    ]
    done = shell.run('claude -p hi "$@"', *words, "--chrome")
    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    told = [line.split()[1] for line in done.stderr.splitlines()]
    assert sorted(told) == sorted(unused)


def test_flags_that_would_change_what_is_done_are_refused(messages_server: Server, shell_for: For) -> None:
    server = messages_server([])
    shell = shell_for(server)
    for flag in ("--worktree", "--bg", "--cloud", "--from-pr 3"):
        done = shell.run(f"claude -p hi {flag}")
        assert done.returncode == 2
        assert "Nothing was sent" in done.stderr
    done = shell.run("claude -p hi --no-such-flag")
    assert done.returncode == 2
    assert "--no-such-flag" in done.stderr
    assert server.requests == []


@pytest.mark.parametrize("word", ["update", "kill"])
def test_commands_of_claude_codes_are_no_prompts(messages_server: Server, shell_for: For, word: str) -> None:
    server = messages_server([])
    assert word in COMMANDS
    done = shell_for(server).run(f"claude {word}")
    assert done.returncode == 2
    assert "is not there" in done.stderr
    assert server.requests == []
