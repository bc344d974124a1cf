"""Publishing into one cell from now on, whatever the kernel runs later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def cell_publisher(shell: InteractiveShell) -> Any:
    """A display publisher of the cell that is running, for use from any thread and after the cell has ended.

    ipykernel 6 has one parent for all that is published in the process, and that is the cell that runs then.
    """
    shared: Any = shell.display_pub
    own = type(shared)(parent=shell, session=shared.session, pub_socket=shared.pub_socket)
    own.topic = shared.topic
    kernel: Any = shell.kernel  # type: ignore[attr-defined]  # only a kernel's shell has cells
    own.set_parent(kernel.get_parent("shell"))
    return own
