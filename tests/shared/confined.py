"""Commands in a real sandbox: by the means that a test asks for, if this machine has it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellwright.agent.calls.confinement import Confinement
from cellwright.sandbox import means
from cellwright.sandbox.means import Sandbox
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.tools.process.environment import child_environment

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

    def bash(self, script: str, confinement: Confinement | None = None, **how: object) -> Ended:
        return self.run(["bash", "--noprofile", "--norc", "-c", script], confinement, **how)  # type: ignore[arg-type]

    def python(self, code: str, confinement: Confinement | None = None, **how: object) -> Ended:
        return self.run([sys.executable, "-I", "-c", code], confinement, **how)  # type: ignore[arg-type]

    def run(
        self,
        arguments: Sequence[str],
        confinement: Confinement | None = None,
        *,
        cwd: Path | None = None,
        environ: Mapping[str, str] = {},
        inherited: Sequence[int] = (),
        proxy_port: int | None = None,
    ) -> Ended:
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
            environ={**child_environment(os.environ), **environ},
            private=self.private,
            proxy_port=proxy_port,
        )
        with confined.process as process:
            output, _ = process.communicate(timeout=60)
            code = confined.wait()
        confined.close()
        return Ended(code, output.decode("utf-8", "replace"))


def sandbox_by(name: str) -> Sandbox:
    """The sandbox that has this means alone; the test is skipped where this machine does not have it."""
    found, missing = means.find_sandbox(), means.missing_means()
    if found is None or name in missing:
        reason = f"NO SANDBOX: {missing.get(name, missing)}"
        if REQUIRED:
            pytest.fail(reason)
        pytest.skip(reason)
    return Sandbox(landlock=found.landlock) if name == "Landlock" else Sandbox(bubblewrap=found.bubblewrap)
