"""The examples in docstrings give what they say; those of `ask` are played with a scripted model."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import cellwright
from cellwright.python_api.ask_options import ASK_DEFAULTS
from cellwright.testing import MessagesServer, say, use
from cellwright.testing.script import Part

SOURCES = Path(__file__).parents[2] / "src"
PLAYED = {
    "cellwright.claude_agent_sdk.client",
    "cellwright.python_api.ask",
    "cellwright.python_api.map_result",
    "cellwright.python_api.prompt_map",
    "cellwright.conversation.runs.run_options",
    "cellwright.python_api.agent",
}
"""Modules whose examples ask a model."""

RUN = """
import doctest, importlib, sys
module = importlib.import_module(sys.argv[1])
results = doctest.testmod(module)
sys.exit(0 if results.attempted and not results.failed else 1)
"""


def modules_with_examples() -> list[str]:
    return [
        ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((SOURCES / "cellwright").rglob("*.py"))
        if ">>> " in path.read_text("utf-8") and "labextension" not in path.parts
    ]


def test_examples_that_need_no_model_are_true() -> None:
    found = set(modules_with_examples())
    assert found >= PLAYED
    failed = {
        name: results.failed
        for name in sorted(found - PLAYED)
        if (results := doctest.testmod(importlib.import_module(name))).failed or not results.attempted
    }
    assert failed == {}


def public_objects() -> dict[str, Any]:
    """The public names, and the public methods of `Agent`, which is the one that programs hold in their hands."""
    names = {name: getattr(cellwright, name) for name in {*cellwright.__all__, "map"} - {"__version__"}}
    methods = {
        f"Agent.{name}": getattr(cellwright.Agent, name) for name in vars(cellwright.Agent) if not name.startswith("_")
    }
    return {**names, **methods}


def test_every_public_name_has_an_example_that_is_executed() -> None:
    found = set(modules_with_examples())
    without = []
    for name, each in public_objects().items():
        home = each.fget if isinstance(each, property) else each
        if ">>> " not in (inspect.getdoc(each) or "") or home.__module__ not in found:
            without.append(name)
    assert without == []


def test_every_public_docstring_names_each_argument() -> None:
    """In backquotes, with what it is; options that are spelled out stand in `ask`."""
    spelled = set(ASK_DEFAULTS)
    missing = {}
    for name, each in public_objects().items():
        if not inspect.isfunction(each):
            continue
        arguments = [
            argument.name
            for argument in inspect.signature(each).parameters.values()
            if argument.name != "self" and (argument.name not in spelled or name == "ask")
        ]
        text = inspect.getdoc(each) or ""
        quoted = {word for part in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", part)}
        if without := [argument for argument in arguments if argument not in quoted]:
            missing[name] = without
    assert missing == {}


def answer(body: dict[str, Any]) -> Part:
    """Claude looks first, where it has the tool, and then says what is there."""
    looked = len(body["messages"]) > 1
    return say("There is one: sales.csv.") if looked or not body.get("tools") else use("Glob", pattern="*.csv")


def test_examples_of_ask_are_true(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "sales.csv").write_text("a,b\n1,2\n")
    for module in sorted(PLAYED):
        with MessagesServer(answer) as server:
            environ = {
                **os.environ,
                "ANTHROPIC_BASE_URL": server.url,
                "ANTHROPIC_API_KEY": server.api_key,
                "CELLWRIGHT_HOME": str(tmp_path / "home"),
            }
            done = subprocess.run(
                [sys.executable, "-c", RUN, module], cwd=project, env=environ, capture_output=True, text=True
            )
        assert done.returncode == 0, done.stdout + done.stderr
