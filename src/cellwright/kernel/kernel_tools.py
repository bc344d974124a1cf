"""The tools that only a kernel has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from cellwright.agent.thread import CallerJobs
from cellwright.agent.tool import Tool
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.tools.built_in_tools import later_tool
from cellwright.kernel.execute.python_tool import python_tool
from cellwright.kernel.namespace.variables_tool import variables_tool
from cellwright.tools.notebook.open_notebook import OpenNotebooks

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.execute.branch_tool import Branches
    from cellwright.kernel.namespace.cell_log import CellLog


def kernel_tools(
    shell: InteractiveShell,
    jobs: CallerJobs,
    notebooks: OpenNotebooks,
    cells: CellLog,
    in_force: SettingsInForce,
    *,
    in_kernel: bool,
    on_stuck: Callable[[str], None] | None,
    own_cell: Callable[[], str | None],
    branches: Branches | None = None,
    before_code: Callable[[str], Awaitable[None]] | None = None,
) -> tuple[Tool, ...]:
    """The tools whose code runs in `shell`. `cells` is the log of what ran there; `branches` are those of the conversation,
    if it may have some; `before_code` is awaited before code changes the kernel; the others are those of `python_tool` and
    `Runner`.
    """
    cwd, settings = in_force.cwd, in_force.settings

    def notebook_run() -> Tool:
        from cellwright.kernel.cells.notebook_run import Runner, notebook_run_tool

        runner = Runner(
            *(shell, jobs, notebooks, cells, cwd),
            in_kernel=in_kernel,
            own_cell=own_cell,
            on_stuck=on_stuck,
            before_code=before_code,
        )
        return notebook_run_tool(runner)

    def notebook_verify() -> Tool:
        from cellwright.kernel.cells.notebook_verify import Verifier, notebook_verify_tool

        return notebook_verify_tool(Verifier(shell, jobs, notebooks, cells, cwd, in_force.environment))

    def branch() -> Tool:
        from cellwright.kernel.branches.bounds import branches_enforced
        from cellwright.kernel.execute.branch_tool import branch_tool

        assert branches is not None
        return branch_tool(branches, branches_enforced, settings.python_timeout)

    has_branches = branches is not None and branches.setting != "off"
    return (
        *([later_tool("Branch", branch)] if has_branches else []),
        python_tool(
            shell,
            jobs,
            in_kernel=in_kernel,
            seconds=settings.python_timeout,
            on_stuck=on_stuck,
            pictures=notebooks.displayed,
            beside_branch=has_branches,
            before_code=before_code,
        ),
        variables_tool(shell, jobs, redacts=settings.redact_secrets, branches=branches if has_branches else None),
        later_tool("NotebookRun", notebook_run),
        later_tool("NotebookVerify", notebook_verify),
    )
