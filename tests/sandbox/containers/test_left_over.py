"""Containers that nobody owns any more are named by the doctor, and removed by the next session."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.config.settings.settings import load_settings
from cellwright.doctor.environment_checks import containers
from cellwright.sandbox.containers.pool import is_alive, owner
from cellwright.tools.process.child_processes import ChildProcesses
from processes.container_images import IMAGE
from processes.containers_at_work import bounds, engine_of, ours, run


def test_a_process_is_known_by_its_number_and_its_start() -> None:
    assert is_alive(owner())
    assert not is_alive(owner() + "1")
    assert not is_alive("")
    assert not is_alive("x.y")


@pytest.mark.containers
def test_what_a_crash_has_left_is_named_and_removed(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    engine = engine_of(engine_kind)
    labels = ["--label", "cellwright=1", "--label", f"cellwright.project={root}", "--label", "cellwright.owner=1.1"]
    arguments = ["--detach", "--network", "none", "--entrypoint", "/bin/sleep", IMAGE, "1000"]
    for name, keep in (("cellwright-lost", "no"), ("cellwright-kept-x", "yes")):
        engine.ask("run", "--name", name, *labels, "--label", f"cellwright.keep={keep}", *arguments)
    try:
        found = containers(load_settings(root, {"HOME": str(root)}))
        assert found.status == "warning"
        assert f"cellwright-kept-x ({root})" in found.found
        assert f"{engine_kind} rm --force cellwright-lost" in found.advice
        run("true", root, children, bounds(root, engine_kind))
        children.stop()
        assert ours(engine_kind, root) == ["cellwright-kept-x"]
    finally:
        engine.ask("rm", "--force", "cellwright-kept-x")
