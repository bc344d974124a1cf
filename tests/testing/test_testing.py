"""The public door: its documentation runs, and importing it costs little."""

from __future__ import annotations

import subprocess
import sys

import cellwright.testing

DOCTEST = """
import doctest, cellwright.testing
results = doctest.testmod(cellwright.testing)
assert results.attempted > 5
raise SystemExit(results.failed)
"""
IMPORTS = """
import asyncio, sys
before = set(sys.modules)
import cellwright.testing
print(*sorted(set(sys.modules) - before))
"""


def run(code):
    """In a process of its own: an example may start threads and set the environment."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_the_example_in_the_documentation_runs():
    result = run(DOCTEST)
    assert result.returncode == 0, result.stdout + result.stderr


def test_import_is_light():
    """The server's rules, HTTP and schemas are imported when a server starts."""
    imported = run(IMPORTS).stdout.split()
    assert "cellwright.testing.script" in imported
    assert not {"h11", "jsonschema", "anthropic", "httpx2", "cellwright.testing.endpoints"} & set(imported)
    others = {name for name in imported if name.startswith("cellwright.") and not name.startswith("cellwright.testing")}
    assert others == {"cellwright.version"}


def test_public_names_are_there():
    for name in cellwright.testing.__all__:
        assert getattr(cellwright.testing, name).__doc__
