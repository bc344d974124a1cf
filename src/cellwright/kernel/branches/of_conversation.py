"""The kernel of a conversation as it is forked: what a copy may read, and which secrets are overwritten in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from cellwright.agent.calls.confinement import Confinement
from cellwright.kernel.branches.bounds import branch_bounds
from cellwright.kernel.branches.kernel_branches import KernelBranches, OnMain
from cellwright.kernel.branches.secrets import overwrite_in_memory, secrets_of
from cellwright.sandbox import landlock
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.resolved_bounds import Bounds
from cellwright.tools.process.environment import child_environment

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def kernel_branches(
    shell: InteractiveShell,
    *,
    on_main: OnMain,
    cell: Callable[[], str],
    may_read: Callable[[str], bool],
    keys: Callable[[], Iterable[str]],
) -> KernelBranches:
    """Return the branches of the kernel of `shell`; `keys` are credentials besides those of the environment.

    `on_main` and `cell` are as in `KernelBranches`; files for which `may_read` is false are closed in a copy.
    """
    version, found = landlock.abi(), list[bytes]()

    def bounds(confinement: Confinement, folder: PrivateFolder) -> Bounds:
        return branch_bounds(confinement, folder, cwd=os.getcwd()).bounds  # noqa: PTH109 - for a system call

    def environment(environ: Mapping[str, str]) -> Mapping[str, str]:
        session = getattr(getattr(shell, "kernel", None), "session", None)
        found.extend(secrets_of(environ, (*keys(), *filter(None, (getattr(session, "key", b""),)))))
        return child_environment(environ)

    return KernelBranches(
        shell,
        bounds=bounds,
        confine=lambda resolved: landlock.confine_this_thread(resolved, version, processes=False),
        on_main=on_main,
        cell=cell,
        may_read=may_read,
        environment=environment,
        forget_secrets=lambda: overwrite_in_memory(found),
    )
