"""Commands in a real sandbox: by the means that a test asks for, if this machine has it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox import mechanisms, staging
from cellwright.sandbox.mechanisms import Sandbox
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.tools.process.runner import child_environment

REQUIRED = os.environ.get("CELLWRIGHT_REQUIRE_SANDBOX") == "1"


@dataclass(frozen=True)
class Ended:
    """How a command ended, with what it wrote to both of its outputs."""

    code: int
    output: str


@dataclass(frozen=True)
class Confined:
    """Runs shell commands and Python in a sandbox; `root` may be read unless something else is said."""

    sandbox: Sandbox
    private: PrivateFolder
    root: Path

    def bash(self, script: str, confinement: Confinement | None = None, **how: Any) -> Ended:
        return self.run(["bash", "--noprofile", "--norc", "-c", script], confinement, **how)

    def python(self, code: str, confinement: Confinement | None = None, **how: Any) -> Ended:
        return self.run([sys.executable, "-I", "-c", code], confinement, **how)

    def run(self, arguments: Sequence[str], confinement: Confinement | None = None, **how: Any) -> Ended:
        """Run a program to its end."""
        with self.sandbox_process(arguments, confinement, **how) as process:
            output, _ = process.communicate(timeout=60)
        return Ended(process.returncode, output.decode("utf-8", "replace"))

    @contextmanager
    def sandbox_process(
        self,
        arguments: Sequence[str],
        confinement: Confinement | None = None,
        *,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        own_variables: Mapping[str, str] | None = None,
        inherited: Sequence[int] = (),
        proxy_port: int | None = None,
        processes: bool = True,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A program in the sandbox, which has been made by now; it has to be ended inside."""
        folder = cwd or self.root

        def start(arguments: Sequence[str], environ: Mapping[str, str], more: Sequence[int]) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                arguments,
                cwd=folder,
                env=environ,
                pass_fds=(*inherited, *more),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

        confined = self.sandbox.start(
            start,
            arguments,
            confinement or Confinement(read=(str(self.root),)),
            cwd=folder,
            environ={**child_environment(os.environ), **(environ or {})},
            private=self.private,
            proxy_port=proxy_port,
            processes=processes,
            own_variables=own_variables,
        )
        with contextlib.closing(confined), confined.process as process:
            yield process
            confined.wait()


def sandbox_by(name: str) -> Sandbox:
    """The sandbox that has this means alone; the test is skipped where this machine does not have it."""
    found, missing = mechanisms.find_sandbox(), mechanisms.missing_means()
    if found is None or name in missing:
        _go_without(f"NO SANDBOX: {missing.get(name, missing)}")
    assert found is not None
    return Sandbox(landlock=found.landlock) if name == "Landlock" else replace(found, landlock=0)


def staging_sandbox() -> Sandbox:
    """The sandbox of bubblewrap that stages changes; the test is skipped where this machine has none."""
    sandbox = sandbox_by("bubblewrap")
    if not sandbox.stages:
        _go_without(f"NO STAGING: {staging.why_not_staged()}")
    return sandbox


def _go_without(reason: str) -> NoReturn:
    """Skip the test, or fail it where this machine is said to have a sandbox."""
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)
