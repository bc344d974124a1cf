"""The tables about the index of code are made by one command, from whatever folder it is given."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_the_tables_of_the_page_are_measured_anew(root: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    shutil.copy(REPOSITORY / "docs" / "code-intelligence.md", page)
    command = [sys.executable, "-m", "benchmarks.code", "--page", page, "--sample", "3"]
    subprocess.run([*command, "--speed", root, "--accuracy", root], cwd=REPOSITORY, check=True, timeout=300)
    tables = dict(re.findall(r"<!-- (\w+) -->\n(.*?)<!-- /\1 -->", page.read_text("utf-8"), re.DOTALL))
    assert re.search(r"^version .*, load .*\n\n\| what ", tables["speed"], re.MULTILINE)
    assert "1 % of the files" in tables["speed"]
    assert f"| {root.name} | Python | ast | 7 | 100.00% | 100.00% |" in tables["definitions"]
    assert f"| {root.name} | 3 | " in tables["references"]
    assert "| **all** | " in tables["navigation"], "what was not measured stays"
