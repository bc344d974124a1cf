"""Extras whose packages are held at another version: it is said who holds them, in place of a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.doctor.installation_checks import installation_checks
from cellwright.tools.mcp.installed_extras import admits, extra_problem, extras, wrong_versions

INSTALLED = {
    "mcp": ("1.26.0", ""),
    "fastmcp": ("2.13.1", "mcp<2.0,>=1.17"),
    "notebook_intelligence": ("6.2.0", "mcp<2,>=1.9"),
    "jupyter-ai": ("3.2.0", "fastmcp>=2.10"),
}
SAID = (
    "mcp 1.26.0 is installed",
    "fastmcp 2.13.1 (for jupyter-ai 3.2.0) needs mcp<2.0,>=1.17",
    "notebook_intelligence 6.2.0 needs mcp<2,>=1.9",
    "an environment of its own",
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment in which other packages hold `mcp`."""
    for name, (version, needs) in INSTALLED.items():
        folder = tmp_path / "site" / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir(parents=True)
        required = f"Requires-Dist: {needs}\n" if needs else ""
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}", "utf-8"
        )
    return {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path)}


def test_every_place_says_who_holds_the_package(environ: dict[str, str]) -> None:
    code = """if True:
        import asyncio, json, os
        from pathlib import Path
        from cellwright.config.mcp.servers import ServerOrigin, read_entries
        from cellwright.doctor.installation_checks import installation_checks
        from cellwright.tools.mcp.connection import ServerConnection

        async def problem():
            origin = ServerOrigin(scope="user", label="a test", cwd=Path.cwd())
            entry = read_entries({"x": {"command": "x"}}, origin, {}).entries["x"]
            made = ServerConnection(entry, os.environ, connect_seconds=9, roots=list, make_tools=lambda _: {})
            made.start()
            await made.settled.wait()
            problem = made.problem
            await made.close()
            return problem

        (check,) = [each for each in installation_checks() if each.name == "extras"]
        finding = check.run()
        print(json.dumps([finding.status, finding.found, asyncio.run(problem())]))
    """
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    status, found, problem = json.loads(done.stdout)
    serve = [sys.executable, "-m", "cellwright.terminal.main", "mcp", "serve"]
    served = subprocess.run(serve, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert served.returncode != 0
    assert "Traceback" not in served.stderr
    for text in (found, problem, served.stderr):
        assert [words for words in SAID if words not in text] == []
    assert (status, found.count("mcp 1.26.0 is installed")) == ("warning", 1), "once for all extras that need it"


def test_here_all_fit() -> None:
    (check,) = [each for each in installation_checks() if each.name == "extras"]
    assert check.run().status == "ok"
    assert {"mcp", "claude-code", "keyring"} <= set(extras())
    assert {extra: wrong_versions(extra) for extra in extras()} == dict.fromkeys(extras(), "")
    assert extra_problem("mcp") == ""


@pytest.mark.parametrize(
    ("bounds", "version", "fits"),
    [
        (">=2.3,<3", "2.3", True),
        (">=2.3,<3", "2.10.1", True),
        ("<3,>=2.3", "1.26.0", False),
        ("<3,>=2.3", "3.0.0", False),
        ("<2", "2.0", False),
        ("<2", "1.99", True),
        ("~=1.4", "1.26", True),
        ("~=1.4.2", "1.5", False),
        ("==1.2.*", "1.2.9", True),
        ("==1.2.*", "1.3", False),
        ("!=1.5", "1.5.0", False),
        ("<=1.5,>1.3", "1.5", True),
        ("", "0.1", True),
        (">=26.4", "26.4.dev1", True),
    ],
)
def test_bounds_of_versions(bounds: str, version: str, fits: bool) -> None:
    assert admits(bounds, version) is fits
