"""The comms of this kernel: by the package `comm`, or by ipykernel itself where that is older than the package (6.17).

Hosted notebooks pin such a version, and where it runs the package, if it is there at all, reaches no front end.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import weakref
from collections.abc import Callable
from typing import Any


def uses_comm_package() -> bool:
    """Return whether what is done with the package `comm` reaches this kernel's front ends."""
    if importlib.util.find_spec("comm") is None:
        return False
    manager = _manager_of_kernel()
    return manager is None or manager is _package().get_comm_manager()


def _package() -> Any:
    import comm  # older than the package, ipykernel does without it

    return comm


def comm_manager() -> Any:
    """The manager of the kernel's comms: `register_target`, `unregister_comm` and so on."""
    if (manager := _manager_of_kernel()) is not None:
        return manager
    return _package().get_comm_manager()


def create_comm(target_name: str, **options: Any) -> Any:
    """Open a comm to each page that knows `target_name`; `options` are `data`, `metadata` and the like."""
    if uses_comm_package():
        return _package().create_comm(target_name=target_name, **options)
    from ipykernel.comm import Comm

    return Comm(target_name=target_name, **options)


def isolate_from_shell(comm: Any) -> None:
    """Have messages to `comm` reach its callback alone, on the subshell that they name.

    A comm of the package fires the shell's hooks around its callback, on the subshell's thread. matplotlib's inline backend
    then draws the user's figures there while the main thread saves them: they come out blank or torn.
    ipykernel 7.4 hands messages to the shell that last published on the comm, which is the main shell: busy with the very
    cell that waits for them. Other versions have no such route.
    """
    # no method of the comm: that would keep it alive
    comm.handle_msg = functools.partial(_call_back, weakref.ref(comm))
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, default: default


def reply_by_stream(kernel: Any) -> None:
    """Have ipykernel 7.0 to 7.3 send its replies by the stream that reads the requests, as 7.4 does.

    Sent past that, a reply takes the news of a request that arrives meanwhile: neither this one nor any later request of its
    client is read, and only a restart helps. Pages talk while cells run, so with us it happens more often.
    """
    manager: Any = getattr(getattr(kernel, "shell_channel_thread", None), "manager", None)
    if hasattr(manager, "_shell_socket"):
        manager._shell_socket = kernel.shell_stream


def _call_back(found: Callable[[], Any], message: Any) -> None:
    comm = found()
    if comm is not None and comm._msg_callback is not None:
        comm._msg_callback(message)


def _manager_of_kernel() -> Any:
    """The manager that ipykernel's kernel hands messages to; None in a kernel of another make."""
    base = sys.modules.get("ipykernel.kernelbase")
    return getattr(base.Kernel.instance(), "comm_manager", None) if base and base.Kernel.initialized() else None
