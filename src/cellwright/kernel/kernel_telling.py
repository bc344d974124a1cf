"""What a kernel's prompts are told besides their words: the notebook's news, and the cells and variables they mention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cellwright.agent.full_prompt import Telling
from cellwright.kernel.context.mentions import mentioned_cells, mentioned_variables
from cellwright.kernel.context.notebook_context import NotebookContext
from cellwright.kernel.magic.line import How
from cellwright.kernel.namespace.summary import describe_all
from cellwright.kernel.namespace_news import NamespaceNews
from cellwright.tools.notebook.open_notebook import OpenNotebooks

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.namespace.cell_log import CellLog


@dataclass(frozen=True, slots=True)
class KernelTelling:
    """Makes what is told with each prompt, on the thread that runs the cells."""

    shell: InteractiveShell
    notebooks: OpenNotebooks
    context: NotebookContext

    def with_prompt(self, prompt: str, how: How, cell_id: str | None, *, dry: bool = False) -> tuple[Telling, ...]:
        """What finds out what is told with `prompt` in the cell `cell_id`; the namespace is looked at now."""
        found = (
            self.context.telling(how, cell_id, dry=dry),
            mentioned_cells(self.notebooks),
            mentioned_variables(prompt, self.shell.user_ns, describe_lines),
        )
        return tuple(telling for telling in found if telling is not None)

    def run_ended(self) -> None:
        """The run is over; called where its prompt was sent."""
        self.context.run_ended()


def kernel_telling(shell: InteractiveShell, log: CellLog, notebooks: OpenNotebooks) -> KernelTelling:
    """What the prompts in `shell` are told."""
    context = NotebookContext(log, notebooks, NamespaceNews(shell, log))
    return KernelTelling(shell, notebooks, context)


def describe_lines(namespace: Mapping[str, Any], names: Sequence[str]) -> str:
    """All that is known of each variable, within bounds of time and size. On the thread that runs the cells."""
    return "\n".join(text for _, text in describe_all({name: namespace[name] for name in names}))
