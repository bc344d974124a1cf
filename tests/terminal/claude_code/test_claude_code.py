"""Lines around `claude -p` that people publish, in their forms: what a script, a workflow or a Makefile calls.

Collected in November 2026 from Claude Code's documents, public repositories and articles, and shortened: the prompts say
less, the flags, pipes and quotes are theirs. `claude` on the PATH is our command, the model is the strict local server.
What is not as in Claude Code is in the table of docs/coming-from-claude-code.md.
"""

# ruff: noqa: E501  a published line stays one line

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from cellwright.testing import MessagesServer, say, use

pytestmark = pytest.mark.thorough

Server = Callable[..., MessagesServer]
For = Callable[..., Any]

PLACE = """
git init -q . && git config user.email me@example.com && git config user.name Me && mkdir -p src logs tests docs .claude/agents
echo 'def f(): return 1' > src/auth.py; echo 'boom at line 3' > error.log; cp error.log logs.txt; echo 'old' > README.md
echo 'Do the next task.' > prompt.md; echo '{"a": 1}' > data.json; echo '{"mcpServers": {}}' > servers.json
echo 'You are a careful reviewer.' > rules.txt; cp servers.json .mcp.json
printf -- '---\\nname: code-analyzer\\ndescription: Analyzes.\\n---\\nYou analyze.\\n' > .claude/agents/code-analyzer.md
git add -A && git commit -q -m start && echo 'def f(): return 2' > src/auth.py && git add src
"""
TALK = "claude -p 'remember the sea' --output-format json | jq -r .session_id > id; session_id=$(cat id); "
SCHEMA = """'{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}'"""
VALUE = say('{"ok": true}')
MESSAGE = """'{"type":"user","message":{"role":"user","content":[{"type":"text","text":"Explain this code"}]}}'"""


@dataclass(frozen=True)
class Line:
    """A published line, what the model does, and what stdout has; `asked` stands in the request."""

    text: str
    out: str = "Done."
    script: tuple[Any, ...] = (say("Done."),)
    asked: str = ""
    code: int = 0
    body: Callable[[dict[str, Any]], bool] = lambda _: True


def tools(body: dict[str, Any]) -> set[str]:
    return {tool["name"] for tool in body.get("tools", ())}


def is_haiku(body: dict[str, Any]) -> bool:
    return "haiku" in body["model"]


def is_sonnet(body: dict[str, Any]) -> bool:
    return "sonnet" in body["model"]


TWICE = (say("First."), say("Done."))
WRITE = (use("Write", file_path="out.txt", content="x"), say("Done."))
TEST = (use("Bash", command="npm test"), say("Done."))

LINES = [
    # the command line's own reference
    Line('claude -p "explain this function"', asked="explain this function"),
    Line('cat logs.txt | claude -p "explain"', asked="boom at line 3"),
    Line('claude --print "query"'),
    Line('echo "what does this do?" | claude -p', asked="what does this do?"),
    Line(TALK + 'claude -c -p "Check for type errors"', script=TWICE, asked="remember the sea"),
    Line(TALK + 'claude -r "$session_id" "Finish this" -p', script=TWICE, asked="remember the sea"),
    Line('claude -p "query" --output-format json | jq -r .result'),
    Line('claude -p --output-format json "query" | jq -r ".is_error"', "false"),
    Line('claude -p "query" --output-format stream-json --verbose | tail -1 | jq -r .result'),
    Line('claude -p --max-turns 3 "query"'),
    Line('claude -p --verbose "query" 2>/dev/null'),
    Line('claude -p --model claude-sonnet-5-5 "query"', body=is_sonnet),
    Line('claude -p "query" --model haiku </dev/null || claude -p "query" </dev/null', body=is_haiku),
    Line('claude -p --permission-mode plan "query"', asked="query"),
    Line('claude -p --append-system-prompt "Always use TypeScript" "query"', body=lambda b: "TypeScript" in str(b["system"])),
    Line('claude -p --system-prompt "You are a Python expert" "query"', body=lambda b: "Python expert" in str(b["system"])),
    Line('claude -p --system-prompt-file ./rules.txt "query"', body=lambda b: "careful reviewer" in str(b["system"])),
    Line('claude -p --append-system-prompt-file ./rules.txt "query"', body=lambda b: "careful" in str(b["system"])),
    Line('claude -p --max-budget-usd 5.00 "query"'),
    Line('claude -p --fallback-model sonnet "query"'),
    Line('claude -p --no-session-persistence "query"'),
    Line('claude -p --tools "Bash,Edit,Read" "query"', body=lambda b: tools(b) >= {"Bash", "Edit", "Read"} and "Write" not in tools(b)),
    Line('claude -p "query" --tools ""', body=lambda b: not tools(b)),
    Line('claude -p --add-dir src docs --max-turns 2 -- "query"'),
    Line('claude -p --mcp-config ./servers.json --strict-mcp-config "query"'),
    Line('claude -p --settings ./data.json "query"'),
    Line('claude -p --setting-sources user,project "query"'),
    Line('claude -p --session-id "550e8400-e29b-41d4-a716-446655440000" "query" --output-format json | jq -r .session_id', "550e8400-e29b-41d4-a716-446655440000"),
    Line("""claude -p --agents '{"reviewer":{"description":"Reviews code","prompt":"You review"}}' "query" """, asked="reviewer"),
    Line('claude -p --agent code-analyzer --trust "print(1)"', body=lambda b: "You analyze." in str(b["system"])),
    # the page on programs that call it
    Line('claude -p "Find and fix the bug in auth.py" --allowedTools "Read,Edit,Bash"', script=TEST),
    Line(f'claude -p "Extract" --output-format json --json-schema {SCHEMA} | jq -c .structured_output', '{"ok":true}', (VALUE,)),
    Line("claude -p \"Write a poem\" --output-format stream-json --verbose --include-partial-messages | jq -rj 'select(.type == \"stream_event\" and .event.delta.type? == \"text_delta\") | .event.delta.text'"),
    Line('claude -p "Run the tests and fix failures" --allowedTools "Bash,Read,Edit"', script=TEST),
    Line('claude -p "Create a commit" --allowedTools "Bash(git diff *),Bash(git log *),Bash(git status *),Bash(git commit *)"', script=(use("Bash", command="git diff --staged"), say("Done."))),
    Line('git diff HEAD | claude -p --append-system-prompt "You are a security engineer." --output-format json | jq -r .result', asked="return 2"),
    Line('claude -p "Review this" --output-format json > a.json; claude -p "Now the queries" --continue', script=TWICE, asked="Review this"),
    Line('session_id=$(claude -p "Start a review" --output-format json | jq -r ".session_id"); claude -p "Continue" --resume "$session_id"', script=TWICE, asked="Start a review"),
    Line('claude --bare -p "Summarize README.md" --allowedTools "Read"'),
    Line('claude -p "Stage my changes and write commits" --allowedTools "Bash,Read" --permission-mode acceptEdits', script=WRITE),
    Line(f"echo {MESSAGE} | claude -p --output-format=stream-json --input-format=stream-json --verbose | tail -1 | jq -r .result", asked="Explain this code"),
    # what repositories have
    Line('claude -p "$(cat prompt.md)" --dangerously-skip-permissions', asked="Do the next task."),
    Line('claude --dangerously-skip-permissions -p "Fix it" --output-format json 2>err.log | jq -r .result', script=WRITE),
    Line('cat prompt.md | claude -p --allowedTools "Read,Edit,Write,Glob,Grep" --model sonnet', script=WRITE, body=is_sonnet),
    Line('cat prompt.md | claude --print --output-format stream-json --verbose --max-turns 15 --allowedTools "Edit,Write,MultiEdit,Read,Bash,Glob,Grep" | tail -n 1 | jq -r .subtype', "success"),
    Line('cat prompt.md | claude -p --model "sonnet" --permission-mode acceptEdits --allowedTools "Bash(*)" "Read" "Edit" 2>&1 | tee out.log', script=TEST),
    Line('claude -p --model haiku --output-format json "reply only: ok" --max-turns 1 | jq -r .num_turns', "1", body=is_haiku),
    Line('printf "%s" "Name it" | claude -p --safe-mode --strict-mcp-config --model haiku --append-system-prompt "One word." --disallowed-tools Bash Edit Write 2>/dev/null | head -c 400', body=lambda b: not tools(b) & {"Bash", "Write"}),
    Line('timeout 100 claude -p "$(cat prompt.md)" --model sonnet --effort low --dangerously-skip-permissions --disallowed-tools Edit Write NotebookEdit --output-format json > r.json 2>err; jq -r .result r.json'),
    Line('claude -p "$(cat data.json)" --output-format stream-json --verbose --allowedTools "Skill Read Glob Grep" > r.jsonl 2> err; tail -1 r.jsonl | jq -r .result'),
    Line('stdbuf -oL claude -p "$(cat prompt.md)" --output-format stream-json --permission-mode bypassPermissions --model sonnet --max-turns 3 | tail -1 | jq -r .result'),
    Line('claude -p "Describe" --allowedTools "Write,Read" --model claude-haiku-4-5 --bare --output-format text > /dev/null; echo $?', "0"),
    Line('SYN="$(claude --print --model haiku --dangerously-skip-permissions --strict-mcp-config "Say it")"; [ -n "$SYN" ] && echo "$SYN"'),
    Line('claude --print --dangerously-skip-permissions --output-format json --mcp-config .mcp.json --model sonnet --system-prompt "Be short" -- "the query" | jq -r .result', asked="the query"),
    Line('cat <<EOF | claude -p --model haiku --dangerously-skip-permissions\nRead the log and summarize it.\nEOF', asked="Read the log and summarize it."),
    Line('claude -p "Analyze this:" < data.json', asked='"a": 1'.replace('"', '\\"')),
    Line("claude -p --output-format stream-json \"Generate ideas\" | while read -r line; do echo \"$line\" | jq -r 'select(.type == \"result\") | .result'; done"),
    Line('env -u CLAUDECODE claude -p "hi" --permission-mode dontAsk'),
    Line('nohup claude --dangerously-skip-permissions -p "Do all" > log.txt 2>&1 & wait; tail -1 log.txt'),
    Line('result=$(git diff --staged | claude -p "Review this code" --output-format json --json-schema ' + SCHEMA + ' --max-turns 1); echo "$result" | jq -r .structured_output.ok', "true", (VALUE,)),
    Line('if ! claude -p "Is it fine? Say PASS" --max-turns 5 | grep -q Done; then exit 1; fi; echo gate', "gate"),
    Line("claude -p 'you are a linter. report typos.' && echo after", "Done.\nafter"),
    Line("find src -name '*.py' | xargs -I{} claude -p \"Document {}\" --allowedTools Read", asked="src/auth.py"),
    Line('for f in src/*.py; do claude -p "Migrate $f" --allowedTools "Edit,Bash(git commit *)" || echo "failed $f"; done', asked="Migrate src/auth.py"),
    Line('tail -n 5 error.log | claude -p "Tell me if anything is odd" --output-format text > answer.txt; cat answer.txt', asked="boom"),
    Line('claude -p "summarize" --output-format json | jq -r \'"\\(.num_turns) \\(.total_cost_usd > 0) \\(.usage.output_tokens > 0)"\'', "1 true true"),
    Line('claude mcp list; claude -p hi', "Done."),
]  # fmt: skip


@pytest.fixture(autouse=True)
def not_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container, where root may skip permissions."""
    monkeypatch.setenv("IS_SANDBOX", "1")


def test_there_are_as_many_as_the_page_says() -> None:
    assert len(LINES) >= 65
    assert len({line.text for line in LINES}) == len(LINES)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.text[:60])
def test_a_published_line(messages_server: Server, shell_for: For, line: Line) -> None:
    server = messages_server(list(line.script))
    shell = shell_for(server)
    assert shell.run(PLACE).returncode == 0
    done = shell.run(line.text)
    said = f"{done.stdout}\n--- {done.stderr}"
    assert done.returncode == line.code, said
    assert done.stdout.strip().endswith(line.out), said
    request = server.requests[-1]
    assert line.asked in json.dumps(request.body["messages"]), request.body["messages"]
    assert line.body(request.body), (request.body["model"], tools(request.body), request.body["system"])
