"""Kernels that the server starts: their environment is made over just before each start.

jupyter_client has no public place for it that holds for every kind of kernel: a provisioner of our own would not be asked
where a kernelspec names another, and the session manager passes the server's whole environment on with each start. What
`pre_start` gives is the last word before the process begins; it is called at restarts, too, also at automatic ones.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_client.manager import KernelManager
from jupyter_client.multikernelmanager import MultiKernelManager

Environment = Callable[[KernelManager, Mapping[str, str]], dict[str, str]]
"""Makes a kernel's environment from the one that it would have."""


def guard_kernels(kernels: MultiKernelManager, environment: Environment) -> None:
    """From now on every kernel of `kernels` starts with what `environment` makes of its environment."""
    make = kernels.kernel_manager_factory

    def make_guarded(*args: Any, **kwargs: Any) -> KernelManager:
        kernel: KernelManager = make(*args, **kwargs)
        pre_start = kernel._async_pre_start_kernel
        kernel._async_pre_start_kernel = functools.partial(_pre_start, kernel, pre_start, environment)  # type: ignore[method-assign]
        return kernel

    kernels.kernel_manager_factory = make_guarded


async def _pre_start(
    kernel: KernelManager, pre_start: Callable[..., Any], environment: Environment, **kwargs: Any
) -> tuple[list[str], dict[str, Any]]:
    command, started_with = await pre_start(**kwargs)
    given = started_with.get("env")
    started_with["env"] = environment(kernel, os.environ if given is None else given)
    return command, started_with
