"""The extension itself: what it costs the server, what it must not break, what it reports."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cellwright.testing import say, use

ROOT = Path(__file__).parents[2]
CONFIG = "jupyter-config/jupyter_server_config.d/cellwright.json"

LOADED = """
import sys
import jupyter_server.serverapp, jupyter_client.session, zmq.asyncio, jupyter_server.gateway.managers
before = set(sys.modules)
import cellwright
(point,) = cellwright._jupyter_server_extension_points()
from cellwright.server import administration
from cellwright.server.routes import routes
heavy = "anthropic", "mcp", "IPython", "ipykernel", "rich", "cellwright.kernel", "cellwright.sessions.catalog.catalog"
print([name for name in heavy if name in sys.modules and name not in before])
print(len(set(sys.modules) - before))
"""

HANDLER = """
import logging
handler = logging.FileHandler({path!r})
c = get_config()
c.EventLogger.handlers = [handler]
"""


def test_what_a_server_loads_is_little():
    ran = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    heavy, modules = ran.stdout.splitlines()
    assert heavy == "[]"
    assert int(modules) < 119  # a dozen are msgspec


def test_the_wheel_enables_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert shared[CONFIG] == "etc/jupyter/jupyter_server_config.d/cellwright.json"
    enabled = json.loads((ROOT / CONFIG).read_text("utf-8"))
    assert enabled == {
        "ServerApp": {"jpserver_extensions": {"cellwright": True}},
        "HTMLExporter": {"preprocessors": ["cellwright.server.exported_page.AnswerStyle"]},
    }


@pytest.mark.kernel
def test_runs_are_reported_without_content_where_that_is_switched_on(start_server, model, tmp_path):
    reports, config = tmp_path / "reports.jsonl", tmp_path / "config.py"
    config.write_text(HANDLER.format(path=str(reports)))
    server = start_server(f"--config={config}", "--CellwrightApp.report_runs=True")
    kernel = server.kernel()
    model.add(use("Read", file_path="secret-path"), say("A secret answer."))
    run = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "A secret question"})
    run.rest()
    lines = server.wait_for(lambda: _about_runs(reports) if len(_about_runs(reports)) == 2 else None, "no reports")
    started, ended = lines
    assert (started["action"], started["run"], started["own_kernel"]) == ("started", run.run, False)
    assert (ended["action"], ended["stop_reason"], ended["tools"], ended["requests"]) == ("ended", "end_turn", 1, 2)
    assert ended["cost_usd"] > 0
    assert ended["tokens"] > 0
    assert "secret" not in json.dumps(lines)


def _about_runs(file):
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in lines if "cellwright" in line["__schema__"]]


@pytest.mark.kernel
def test_nothing_is_reported_by_default(start_server, model, tmp_path):
    reports, config = tmp_path / "reports.jsonl", tmp_path / "config.py"
    config.write_text(HANDLER.format(path=str(reports)))
    server = start_server(f"--config={config}")
    model.add(say("Unreported."))
    server.stream("POST", "run", {"prompt": "Quietly"}).rest()
    assert _about_runs(reports) == []
