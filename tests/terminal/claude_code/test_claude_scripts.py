"""Scripts as people write them around `claude -p`, run with our command as `claude`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.testing import MessagesServer, fault, say, use

Server = Callable[..., MessagesServer]
For = Callable[..., Any]

COMMIT = """
set -eu
git init -q . && git config user.email me@example.com && git config user.name Me
echo one > a.txt && git add a.txt
if git diff --cached --quiet; then echo "nothing staged"; exit 1; fi
MESSAGE=$(git diff --cached | claude -p "Write the title of this commit, nothing else." 2>&1)
[ -n "$MESSAGE" ] && git commit -q -m "$MESSAGE"
git log --format=%s
"""

REVIEW = """
set -u
answer=$(mktemp)
claude -p "Review the folder" --output-format json --max-turns 5 --allowedTools "Read,Grep,Glob" > "$answer" 2>errors
code=$?
if [ "$code" -ne 0 ] || [ "$(jq -r .is_error "$answer")" = true ]; then
  echo "failed with $code: $(jq -r '.result // .errors[0]' "$answer")"
  exit 1
fi
jq -r .result "$answer"
jq -c '{cost: .total_cost_usd, turns: .num_turns, out: .usage.output_tokens, model: (.modelUsage | keys[0])}' "$answer"
"""

TALK = """
set -e
id=$(claude -p "My name is Ada." --output-format json | jq -r '.session_id')
claude -p "What is my name?" --resume "$id" --append-system-prompt "Be brief."
claude --continue -p "And backwards?" --output-format json > answer
[ "$(jq -r .session_id answer)" != "$id" ] && jq -r .result answer
"""

PROGRESS = """
set -o pipefail
claude -p "$1" --output-format stream-json --verbose --include-partial-messages --permission-mode acceptEdits 2>&1 |
while IFS= read -r line; do
  case "$line" in
    '{"type":"system","subtype":"init"'*) echo "model $(jq -r .model <<< "$line")" ;;
    '{"type":"stream_event"'*) jq -rj 'select(.event.delta.type? == "text_delta") | .event.delta.text' <<< "$line" ;;
    '{"type":"assistant"'*) jq -r '.message.content[] | select(.name) | "uses \\(.name) \\(.input.file_path)"' <<< "$line" ;;
    '{"type":"user"'*) grep -o '"is_error":true' <<< "$line" || echo "went well" ;;
    '{"type":"result"'*) echo; grep -o '"num_turns":[0-9]*' <<< "$line" ;;
  esac
done
"""

EXTRACT = """
set -e
printf 'price 3\\n' > a.txt; printf 'price 4\\n' > b.txt
schema='{"type": "object", "properties": {"price": {"type": "integer"}}, "required": ["price"]}'
for file in a.txt b.txt; do
  cat "$file" | claude -p "What does it cost?" --tools "" --output-format json --json-schema "$schema" |
    jq -c --arg file "$file" '{file: $file, price: .structured_output.price}'
done
"""


def test_a_commit_message_is_written_from_a_pipe(messages_server: Server, shell_for: For) -> None:
    server = messages_server([say("Add a.txt")])
    done = shell_for(server).run(COMMIT)
    assert (done.returncode, done.stdout) == (0, "Add a.txt\n")
    asked = json.dumps(server.requests[0].body["messages"][0])
    assert "Write the title of this commit" in asked
    assert "+one" in asked


def test_a_review_is_logged_with_its_cost(messages_server: Server, shell_for: For) -> None:
    done = shell_for(messages_server([use("Glob", pattern="*"), say("All is well.")])).run(REVIEW)
    assert done.returncode == 0
    text, facts = done.stdout.splitlines()
    assert text == "All is well."
    assert json.loads(facts).items() >= {"turns": 2, "model": "claude-opus-5-5"}.items()
    assert json.loads(facts)["cost"] > 0


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (
            [fault("status", status=401, error_type="authentication_error")],
            "failed with 3: API Error: The API rejected your key",
        ),
        ([use("Glob", pattern="*")] * 5, "failed with 6: MAX_TURNS_REACHED"),
    ],
)
def test_a_review_that_fails_is_told(messages_server: Server, shell_for: For, script: list[Any], told: str) -> None:
    done = shell_for(messages_server(script)).run(REVIEW)
    assert done.returncode == 1
    assert done.stdout.startswith(told)


def test_a_conversation_goes_on_by_its_id(messages_server: Server, shell_for: For) -> None:
    server = messages_server([say("Hello Ada."), say("Ada."), say("adA.")])
    done = shell_for(server).run(TALK)
    assert (done.returncode, done.stdout) == (0, "Ada.\nadA.\n"), done.stderr
    assert "My name is Ada." in json.dumps(server.requests[2].body["messages"])
    assert server.requests[1].body["system"][-1]["text"] == "Be brief."


def test_progress_is_read_from_the_stream_with_grep(messages_server: Server, shell_for: For) -> None:
    script = [use("Write", file_path="new.txt", content="x"), use("Bash", command="make all"), say("Fertig, schön.")]
    done = shell_for(messages_server(script)).run(PROGRESS, "do it")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "model claude-opus-5-5",
        "uses Write new.txt",
        "went well",
        "uses Bash null",
        '"is_error":true',
        "Fertig, schön.",
        '"num_turns":3',
    ]


def test_values_are_extracted_file_by_file(messages_server: Server, shell_for: For) -> None:
    server = messages_server([say('{"price": 3}'), say('{"price": 4}')])
    done = shell_for(server).run(EXTRACT)
    assert done.stdout.splitlines() == ['{"file":"a.txt","price":3}', '{"file":"b.txt","price":4}'], done.stderr
    assert "tools" not in server.requests[0].body


def test_what_kept_a_run_from_an_answer_is_its_result(messages_server: Server, shell_for: For) -> None:
    refused = fault("status", status=401, error_type="authentication_error")
    done = shell_for(messages_server([refused])).run("claude -p hi 2>/dev/null")
    assert done.returncode == 3
    assert done.stdout.startswith("The API rejected your key")
    missing = shell_for(messages_server([])).run("claude -p hi --output-format json 2>/dev/null", ANTHROPIC_API_KEY="")
    assert missing.returncode == 3
    assert json.loads(missing.stdout).items() >= {"type": "result", "is_error": True}.items()


def test_nothing_but_the_answer_is_written_also_without_print(messages_server: Server, shell_for: For) -> None:
    done = shell_for(messages_server([use("Glob", pattern="*"), say("Done.")])).run(
        "claude < /dev/stdin 2>&1", piped="go"
    )
    assert (done.returncode, done.stdout) == (0, "Done.\n")


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ({"subtype": "initialize", "hooks": None}, "success"),
        ({"subtype": "initialize", "hooks": {"PreToolUse": [{"hookCallbackIds": ["h1"]}]}}, "error"),
        ({"subtype": "set_model", "model": "haiku"}, "error"),
    ],
)
def test_a_program_is_told_what_it_can_have(
    messages_server: Server, shell_for: For, request_: dict[str, Any], answer: str
) -> None:
    lines = [
        {"type": "control_request", "request_id": "r1", "request": request_},
        {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "go"}]}},
    ]
    piped = "".join(f"{json.dumps(line)}\n" for line in lines)
    options = "--input-format stream-json --output-format stream-json --verbose --permission-prompt-tool stdio"
    done = shell_for(messages_server([say("Hello.")])).run(f"claude {options}", piped=piped)
    told, *messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert (told["response"]["subtype"], told["response"]["request_id"]) == (answer, "r1")
    assert messages[-1]["result"] == "Hello."


def test_a_line_that_is_no_message_ends_the_command(messages_server: Server, shell_for: For) -> None:
    options = "-p --input-format stream-json --output-format stream-json"
    done = shell_for(server := messages_server([])).run(f"claude {options}", piped="hello\n")
    assert done.returncode == 2
    assert "Line 1 of stdin is not JSON" in done.stderr
    assert json.loads(done.stdout)["is_error"]
    assert server.requests == []


@pytest.mark.parametrize("kind", ["general-purpose", "outer"])
def test_the_models_of_agents_are_part_of_what_was_used(
    messages_server: Server, command_for: For, own_place: Path, kind: str
) -> None:
    agents = own_place / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "outer.md").write_text("---\nname: outer\ndescription: x\nmodel: sonnet\n---\nYou hand on.", "utf-8")
    (agents / "inner.md").write_text("---\nname: inner\ndescription: x\nmodel: haiku\n---\nYou count.", "utf-8")

    def task(name: str) -> Any:
        return use("Agent", description="count", prompt="Count.", subagent_type=name)

    script = [task(kind), task("inner"), say("7"), say("7"), say("Seven.")]
    done = command_for(messages_server(script)).run("-p", "--output-format", "claude-json", "how many?")
    result = json.loads(done.stdout)
    used = {name.split("-")[1]: each["costUSD"] for name, each in result["modelUsage"].items()}
    assert used.keys() == {"opus", "haiku"} | ({"sonnet"} if kind == "outer" else set())
    assert sum(used.values()) == pytest.approx(result["total_cost_usd"])
