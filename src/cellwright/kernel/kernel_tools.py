"""The tools that only a kernel has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cellwright.agent.tool import Tool
from cellwright.conversation.conversation import Conversation
from cellwright.kernel.cells.notebook_run import Runner, notebook_run_tool
from cellwright.kernel.cells.notebook_verify import Verifier, notebook_verify_tool
from cellwright.kernel.execute.python_tool import python_tool
from cellwright.kernel.namespace.variables_tool import variables_tool
from cellwright.kernel.run.front_end import front_end_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.namespace.cell_log import CellLog


def kernel_tools(
    shell: InteractiveShell,
    conversation: Conversation,
    cells: CellLog,
    *,
    in_kernel: bool,
    on_stuck: Callable[[str], None],
) -> tuple[Tool, ...]:
    """The tools of `conversation`, whose code runs in `shell`.

    `cells` is the log of what ran there; the other arguments are `python_tool`'s.
    """
    runner = Runner(
        shell,
        conversation.jobs,
        conversation.open_notebooks,
        cells,
        conversation.cwd,
        in_kernel=in_kernel,
        own_cell=lambda: front_end_of(shell).cell_id,
        on_stuck=on_stuck,
    )
    verifier = Verifier(
        shell, conversation.jobs, conversation.open_notebooks, cells, conversation.cwd, conversation.environment
    )
    return (
        python_tool(
            shell,
            conversation.jobs,
            in_kernel=in_kernel,
            seconds=conversation.settings.python_timeout,
            on_stuck=on_stuck,
        ),
        variables_tool(shell, conversation.jobs, redacts=conversation.settings.redact_secrets),
        notebook_run_tool(runner),
        notebook_verify_tool(verifier),
    )
