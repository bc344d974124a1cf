"""The feature: a turn that is a preview. It works on copies, and ends with a list of what it would change.

The list is a question to the user like any other, put when Claude is done, and belongs to the turn: what is accepted then is
taken back with `/undo`. Without an answer the copies stay until they are accepted or dropped with `/preview`, until another
preview begins or the process ends. Nothing else takes them to the user's files, cells and variables.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.prompt import ContextItems, ContextProvider, PromptContext, text_context
from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.conversation.feature import Feature, RunInfo
from cellwright.conversation.resolve_options import ask_about_trust
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, RunEnd
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import PRIVATE_FILE
from cellwright.tools.files.atomic_write import write_atomically
from cellwright.tools.notebook.notebook_source import notebook_bytes

if TYPE_CHECKING:
    from cellwright.conversation.core import Core
    from cellwright.conversation.kernel_copies import PreviewKernel
    from cellwright.conversation.runs.run import Run
    from cellwright.features.preview.open_preview import OpenPreview
    from cellwright.features.preview.staged import StagedTree

ABOUT = """\
<preview>
This turn is a preview. Your calls work on copies: files are read and changed in a copy of the project, Python, Branch and \
NotebookRun run in one confined copy of the kernel without network, Variables looks at that, and Bash runs in the copied \
files. At its end the user sees what would change, and accepts all, some or none of it. Use the usual paths. \
Calls with effects outside (MCP tools that change something, pushes, background processes) are refused: say what to do \
after the preview.
</preview>"""


class TurnPreview(Feature):
    """The previews of one conversation. `kernel` makes the copy of the kernel of each."""

    in_dry_runs = False
    previews = True

    def __init__(self, core: Core, kernel: Callable[[], PreviewKernel]) -> None:
        self._core = core
        self._make_kernel = kernel
        self._runs: list[Run] = []
        self._now: OpenPreview | None = None
        self.open: OpenPreview | None = None
        """The preview that waits for an answer, or is on its way."""
        self._told: dict[str, str] = {}

    @property
    def is_open(self) -> bool:
        return self.open is not None

    def run_added(self, run: Run) -> None:
        self._runs.append(run)

        def forget(event: Event) -> None:
            if isinstance(event, RunEnd):
                self._runs = [each for each in self._runs if each is not run]
                self._now = None

        run.bus.subscribe(forget)

    # ------------------------------------------------------------ a run

    def for_run(self, run: RunInfo, agent: AgentSetup) -> AgentSetup:
        if not (run.options.preview and run.kind.keeps):
            return agent
        # few turns are previews
        from cellwright.features.preview.open_preview import Accepting, OpenPreview
        from cellwright.features.preview.staged import PreviewPolicy, Stage, StagedFeatures, staged_tool

        if self._now is None:
            kernel = self._make_kernel()
            stage = Stage(
                kernel_tools=kernel.tools,
                looking=kernel.looking,
                files=self._core.tools.in_folder,
                still=kernel.still,
                can_ask=agent.can_use_tool is not None,
            )
            self._now = OpenPreview(stage, kernel, run.session)
        stage = self._now.stage  # the same where a run is resolved anew
        return replace(
            agent,
            tools=tuple(staged_tool(each, stage) for each in agent.tools),
            features=StagedFeatures(agent.features, stage),
            policy=PreviewPolicy(agent.policy, stage),
            final_answer=replace(agent.final_answer, proposals=Accepting(self, self._now)),
        )

    async def get_ready(self, run: RunInfo) -> bool:
        """Make the copies. Where that cannot be, ask whether to go on without; raises CellwrightError if not."""
        if (preview := self._now) is None or not run.options.preview:
            return False
        await self.drop()
        inside = self._core.in_force.settings.sandbox.container.container
        if inside is None:
            reason = preview.kernel.refusal()
        else:
            reason = (
                f"Commands run in the container {inside.name} (`sandbox.container`), which has no copy of the files."
            )
        reason = reason or await self._copied(preview, run)
        if not reason:
            self.open = preview
            return False
        await preview.close()
        if not await self._goes_on(reason, run):
            message = f"This turn cannot be a preview: {reason} Nothing was sent. Without --branch it runs as usual."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)
        self._now = None
        return False

    async def _copied(self, preview: OpenPreview, run: RunInfo) -> str:
        from cellwright.features.preview.staged import StagedTree, TreeTooLarge

        core = self._core
        policy = core.agent(run.options, core.model.chosen(run.options.provider)).policy
        try:
            tree = await asyncio.to_thread(StagedTree.make, core.host.cwd, policy.may_read)
        except TreeTooLarge as error:
            return f"{error} Start in the folder that matters."
        except OSError as error:
            return f"the files could not be copied ({error.strerror or error})."
        preview.stage.tree = tree
        await self._copy_open_notebooks(tree)
        return await preview.kernel.begin(tree)

    async def _copy_open_notebooks(self, tree: StagedTree) -> None:
        """Notebooks begin as their users see them, unsaved changes included."""
        notebooks = self._core.tools.open_notebooks
        await notebooks.settled()
        for name in [each for each in tree.copied if each.endswith(".ipynb")]:
            if (notebook := notebooks.at(tree.project / name)) is not None:
                cells = await notebook.cells()
                data = notebook_bytes(cells, outputs=True)
                await asyncio.to_thread(tree.replace, name, data)

    async def _goes_on(self, reason: str, run: RunInfo) -> bool:
        surface = self._runs[0].surface if self._runs else None
        if surface is None or surface.ask_user is None:
            return False
        question = TrustQuestion(
            about="run",
            title="Run without a preview",
            detail="This turn cannot be a preview. Without one, Claude works on your files, cells and variables themselves, "
            "and asks as usual.",
            reason=reason,
            yes="Run without a preview",
            no="Send nothing",
            ids=frozenset({"preview"}),
            required=True,
        )
        answer, _ = await ask_about_trust(
            question, surface.ask_user, run.session, self._runs[0].bus.publish, name="Preview"
        )
        return answer == "yes"

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider | None:
        if not run.kind.keeps:
            return None

        async def provide(context: PromptContext) -> ContextItems:
            found = []
            if text := await asyncio.to_thread(self._take_told, context.session):
                found.append(text_context("The preview", "context", f"<preview>\n{text}\n</preview>"))
            elif (waits := self.open) is not None and waits is not self._now and waits.session is context.session:
                text = "Your last preview still waits for the user's answer: nothing of it was changed."
                found.append(text_context("The preview", "context", f"<preview>\n{text}\n</preview>"))
            if self._now is not None and not self._now.stage.is_off:
                found.append(text_context("A preview", "context", ABOUT))
            return ContextItems(before=tuple(found))

        return provide

    # ------------------------------------------------------------ an answer

    async def accept(self, preview: OpenPreview, numbers: Sequence[int]) -> tuple[str, list[str]]:
        """Bring the items of `numbers` to the user's own and drop the rest; gives what is said, and code still to be run."""
        from cellwright.features.preview.open_preview import Acceptance

        core = self._core
        assert preview.stage.tree is not None
        chosen = [item for item in preview.items if item.number in numbers]
        acceptance = Acceptance(
            preview.stage.tree,
            core.tools.file_state,
            core.tools.open_notebooks,
            core.kept.recorded,
        )
        runs_code = any(item.kind == "code" for item in chosen)
        names = [] if runs_code else [item.name for item in chosen if item.kind == "variable"]
        problems = dict(await preview.kernel.take(names)) if names else {}
        lines = []
        for item in preview.items:
            if item not in chosen:
                lines.append(f"not accepted: {item.title}")
            elif item.kind == "code" or (item.kind == "variable" and runs_code):
                lines.append(f"accepted, by running the code: {item.title}")
            else:
                problem = problems.get(item.name, "") if item.kind == "variable" else await acceptance.take(item)
                lines.append(f"NOT changed, {problem}: {item.title}" if problem else f"accepted: {item.title}")
        codes = list(preview.kernel.codes) if runs_code else []
        await self.answered_with(preview, lines)
        return "\n".join(lines), codes

    async def answered_with(self, preview: OpenPreview, lines: Sequence[str]) -> None:
        """The preview is over: Claude is told with the next prompt, in whatever process that is."""
        text = "The user has reviewed your preview. Only accepted changes were made.\n" + "\n".join(lines)
        session = preview.session
        self._told[session.id] = text
        if (path := _told_path(session)) is not None:
            with contextlib.suppress(OSError):
                data, status = json.dumps({"text": text}).encode(), path.stat() if path.exists() else None
                await asyncio.to_thread(write_atomically, path, data, replacing=status)
                path.chmod(PRIVATE_FILE)
        await self._close(preview)

    async def drop(self) -> None:
        """Drop the preview that waits."""
        if self.open is not None:
            await self._close(self.open)

    async def _close(self, preview: OpenPreview) -> None:
        if self.open is preview:
            self.open = None
        await preview.close()

    def _take_told(self, session: Session) -> str:
        text = self._told.pop(session.id, "")
        path = _told_path(session)
        if path is not None and path.exists():
            with contextlib.suppress(OSError, ValueError, KeyError):
                text = text or str(json.loads(path.read_bytes())["text"])
            path.unlink(missing_ok=True)
        return text

    async def close(self) -> None:
        await self.drop()


def _told_path(session: Session) -> Path | None:
    return None if session.path is None else session.path.with_suffix(".preview.json")
