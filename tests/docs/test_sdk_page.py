"""docs/coming-from-claude-agent-sdk.md: its programs run, and what it names is there."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import cellwright
import cellwright.events
from cellwright.commands.registry import COMMANDS
from cellwright.config.settings.known_settings import KEYS
from cellwright.testing import MessagesServer, say, use
from cellwright.testing.script import Part

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "coming-from-claude-agent-sdk.md").read_text("utf-8")
AGENT = PAGE.partition("## Two programs")[2]
"""The part about `cellwright.Agent`; of the other import, tests/python_api reads it."""
BLOCKS = re.findall(r"^```python[^\n]*\n(.*?)^```", AGENT, re.DOTALL | re.MULTILINE)
OURS = [block for block in BLOCKS if "claude_agent_sdk" not in block]
OPTIONS = {*inspect.signature(cellwright.ask).parameters, *inspect.signature(cellwright.Agent).parameters}

TALK = {
    "What is a pear?": [use("price", article="pear"), use("Write", file_path="prices.txt", content="0.40\n")],
    "How many rows": [],
    "Are you sure?": [],
}
ANSWERS = {"What is a pear?": "It is 0.40.", "How many rows": '{"rows": 1}', "Are you sure?": "Yes."}


def answer(body: dict[str, Any]) -> Part:
    """Claude calls the tools that the newest prompt needs, one after another, and then says what is to be said."""
    prompts = [at for at, each in enumerate(body["messages"]) if any(key in json.dumps(each) for key in TALK)]
    newest = json.dumps(body["messages"][prompts[-1]])
    key = next(key for key in reversed(TALK) if key in newest)
    done = sum(each["role"] == "assistant" for each in body["messages"][prompts[-1] :])
    return TALK[key][done] if done < len(TALK[key]) else say(ANSWERS[key])


def test_the_programs_run(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("a\n1\n")
    with MessagesServer(answer) as server:
        environ = {
            **os.environ,
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
        }
        # one after another in one process: importing takes longer than they do
        done = subprocess.run(
            [sys.executable, "-c", "\nprint()\n".join(OURS)], cwd=tmp_path, env=environ, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"It is 0\.40\.\n1\nYes\. 0\.\d+\n", done.stdout)
    assert (tmp_path / "prices.txt").read_text() == "0.40\n"


def test_both_sides_are_programs() -> None:
    assert (len(BLOCKS), len(OURS)) == (4, 2)
    for block in BLOCKS:
        ast.parse(block)


def ours() -> list[str]:
    """The cells of the tables that say how it is here."""
    return [cell for row in re.findall(r"^\|(.*)\|$", AGENT, re.MULTILINE) for cell in re.split(r"(?<!\\)\|", row)[1:]]


def test_what_it_names_is_there() -> None:
    quoted = [text for cell in ours() for text in re.findall(r"`([^`]+)`", cell)]
    keywords = {name for text in quoted for name in re.findall(r"(?<![\w.(\"])([a-z_]+)=", text)}
    keywords -= {"turn", "limit", "when", "read_only", "result_chars"}
    assert keywords <= OPTIONS
    methods = {name for text in quoted for name in re.findall(r"\bagent\.(\w+)", text)}
    assert methods <= set(dir(cellwright.Agent))
    catalog = {name for text in quoted for name in re.findall(r"^\.(\w+)\(", text)}
    assert catalog <= set(dir(cellwright.Catalog))
    public = {name for text in quoted for name in re.findall(r"\bcellwright\.(\w+)", text)} - {"events"}
    assert public <= {*cellwright.__all__, "map"}
    events = {name for text in quoted for name in re.findall(r"^[A-Z]\w+$", text)}
    known = {*vars(cellwright.events), *cellwright.__all__, *vars(cellwright)}
    assert {name for name in events if name not in known} <= {
        "ClaudeSDKClient",
        "AgentDefinition",
        "MAX_THINKING_TOKENS",
    }
    commands = {name for text in quoted for name in re.findall(r"\"/(\w+)", text)}
    assert commands <= set(COMMANDS)
    settings = {name for text in quoted for name in re.findall(r"settings=\{\"(\w+)\"", text)}
    assert settings <= {path[0] for path in KEYS}
    links = set(re.findall(r"\]\(([\w.-]+\.md)\)", PAGE))
    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []
