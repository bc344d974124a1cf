"""The feature: a turn that is a preview. It works on copies, and ends with a list of what it would change.

The list is a question to the user like any other, put when Claude is done, and belongs to the turn: what is accepted then is
taken back with `/undo`. Without an answer the copies stay until they are accepted or dropped with `/preview`, until another
preview begins or the process ends. Nothing else takes them to the user's files, cells and variables.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from msgspec import Meta, field

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.prompt import ContextItems, ContextProvider, PromptContext, text_context
from cellwright.agent.tool import Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.conversation.features.feature import Feature, RunInfo
from cellwright.conversation.resolve_options import ask_about_trust
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, Preview, RunEnd
from cellwright.features.preview.changes import Acceptance, CellOutputsKept, Item, Variable, items_of
from cellwright.features.preview.staged_calls import ACCEPT, PreviewPolicy, Stage, StagedFeatures, staged_tool
from cellwright.features.preview.staged_tree import StagedTree, TreeTooLarge
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import PRIVATE_FILE
from cellwright.text import counted, lazy_pattern
from cellwright.tools.files.atomic_write import write_atomically

if TYPE_CHECKING:
    from cellwright.conversation.conversation import Conversation
    from cellwright.conversation.runs.run import Run

QUESTION = "What of this preview do you accept?"
ALL, NONE = "All of it", "Nothing of it"

ABOUT = """\
<preview>
This turn is a preview. Your calls work on copies: files are read and changed in a copy of the project, Python, Branch and \
NotebookRun run in one confined copy of the kernel without network, and Bash in the copied files. The user sees at its end \
what would change, and accepts all, parts, or nothing of it. Use the paths that you know. What has effects outside (MCP \
tools that change something, pushes, processes in the background) is refused: say what is to be done after the preview.
</preview>"""

_NUMBERS = lazy_pattern(r"\d+(?:[ ,]+\d+)*")


class PreviewKernel(Protocol):
    """The copy of the kernel that a preview works in (`kernel/execute/preview_kernel.py`)."""

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def outputs(self) -> CellOutputsKept: ...
    @property
    def codes(self) -> Sequence[str]: ...
    @property
    def problem(self) -> str: ...
    def refusal(self) -> str: ...
    async def begin(self, tree: StagedTree) -> str: ...
    async def variables(self) -> Sequence[Variable]: ...
    async def take(self, names: Sequence[str]) -> Mapping[str, str]: ...
    async def close(self) -> None: ...


class Choice(ToolInput):
    """One answer to choose."""

    label: str
    description: str
    preview: str | None = None


class Asked(ToolInput):
    """The question, as AskUserQuestion has it."""

    question: str
    header: str
    options: tuple[Choice, ...]
    multi_select: bool = field(default=True, name="multiSelect")


class AcceptPreviewInput(ToolInput):
    """The list of what would change."""

    questions: tuple[Asked, ...]


class AnsweredPreviewInput(AcceptPreviewInput):
    """The list with the user's answer."""

    answers: Annotated[Mapping[str, str | tuple[str, ...]], Meta(description="The answer, by the question.")] = field(
        default_factory=dict
    )
    annotations: Annotated[Mapping[str, Any], Meta(description="Remarks.")] = field(default_factory=dict)


class OpenPreview:
    """One preview from its beginning until it is answered. For the agent's loop."""

    def __init__(self, stage: Stage, kernel: PreviewKernel, session: Session) -> None:
        self.stage = stage
        self.kernel = kernel
        self.session = session
        self.items: list[Item] = []

    async def look(self) -> list[Item]:
        """List the changes that it would make, as it is now."""
        if self.stage.tree is None:
            return []
        variables = await self.kernel.variables() if self.stage.has_run else ()
        self.items = await asyncio.to_thread(
            items_of, self.stage.tree, self.kernel.outputs, variables, list(self.kernel.codes)
        )
        return self.items

    async def close(self) -> None:
        """Drop the copies."""
        self.stage.is_off = True
        await self.kernel.close()
        if (tree := self.stage.tree) is not None:
            await asyncio.to_thread(tree.close)


class TurnPreview(Feature):
    """The previews of one conversation, which is given when it is made. `kernel` makes the copy of the kernel of each."""

    in_dry_runs = False
    previews = True

    def __init__(self, conversation: Callable[[], Conversation], kernel: Callable[[], PreviewKernel]) -> None:
        self._conversation = conversation
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
        run.bus.subscribe(lambda event: self._on_event(run, event))

    def _on_event(self, run: Run, event: Event) -> None:
        if isinstance(event, RunEnd):
            self._runs = [each for each in self._runs if each is not run]
            self._now = None

    # ------------------------------------------------------------ a run

    def for_run(self, run: RunInfo, agent: AgentSetup) -> AgentSetup:
        if not (run.options.preview and run.kind.keeps):
            return agent
        if self._now is None:
            kernel = self._make_kernel()
            stage = Stage(
                kernel_tools=kernel.tools,
                files=self._conversation().tools.in_folder,
                can_ask=agent.can_use_tool is not None,
            )
            self._now = OpenPreview(stage, kernel, run.session)
        stage = self._now.stage  # the same where a run is resolved anew
        return replace(
            agent,
            tools=tuple(staged_tool(each, stage) for each in agent.tools),
            features=StagedFeatures(agent.features, stage),
            policy=PreviewPolicy(agent.policy, stage),
            file_proposals=Accepting(self, self._now),
        )

    async def get_ready(self, run: RunInfo) -> bool:
        """Make the copies. Where that cannot be, ask whether to go on without; raises CellwrightError if not."""
        if (preview := self._now) is None or not run.options.preview:
            return False
        await self.drop()
        reason = preview.kernel.refusal() or await self._copied(preview, run)
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
        conversation = self._conversation()
        policy = conversation.agent(run.options).policy
        try:
            tree = await asyncio.to_thread(StagedTree.make, conversation.cwd, policy.may_read)
        except TreeTooLarge as error:
            return f"{error} Start in the folder that matters."
        except OSError as error:
            return f"the files could not be copied ({error.strerror or error})."
        preview.stage.tree = tree
        await self._copy_open_notebooks(tree)
        return await preview.kernel.begin(tree)

    async def _copy_open_notebooks(self, tree: StagedTree) -> None:
        """Notebooks begin as their users see them, unsaved changes included."""
        from cellwright.tools.notebook.live_source import notebook_bytes  # few turns are previews

        notebooks = self._conversation().tools.open_notebooks
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
        conversation = self._conversation()
        assert preview.stage.tree is not None
        chosen = [item for item in preview.items if item.number in numbers]
        acceptance = Acceptance(
            preview.stage.tree,
            conversation.tools.file_state,
            conversation.tools.open_notebooks,
            lambda: conversation.checkpoints.turn,
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
        text = "The user has looked at your preview. What is not accepted was not changed.\n" + "\n".join(lines)
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


class Accepting:
    """The question at the end of a preview; takes the place of `FileProposals`."""

    def __init__(self, feature: TurnPreview, preview: OpenPreview) -> None:
        self._feature = feature
        self._preview = preview
        self._codes: list[str] = []
        self.tool = self._accept_tool()

    async def calls(self, _answer: str, run_id: str) -> list[dict[str, Any]]:
        """The question, if anything would change."""
        preview = self._preview
        if preview.stage.at_work is None:
            return []
        if not await preview.look():
            await self._feature.answered_with(preview, ["The preview would have changed nothing."])
            return []
        options = [  # the number of an item is its key
            *(_choice(item) for item in preview.items),
            {"label": ALL, "description": f"{_all_words(preview.items)} {preview.kernel.problem}".strip()},
            {"label": NONE, "description": "Drop the copies; nothing is changed."},
        ]
        asked = {"question": QUESTION, "header": "Preview", "multiSelect": True, "options": options}
        return [_call(f"preview_{run_id}", ACCEPT, {"questions": [asked]})]

    def tell(
        self, calls: Sequence[Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """The code that was accepted, to be run in the kernel as any other; what waits, where nobody answered."""
        call, stage = calls[0], self._preview.stage
        if call["name"] == ACCEPT and stage.can_ask and results.get(call["id"], {}).get("is_error"):
            stage.can_ask = False
            return [_call(f"{call['id']}_waits", ACCEPT, {"questions": []})]
        codes, self._codes = self._codes, []
        return [_call(f"{call['id']}_{number}", "Python", {"code": code}) for number, code in enumerate(codes, 1)]

    def _accept_tool(self) -> Tool:
        async def shown(input: AcceptPreviewInput) -> Preview:
            return Preview(QUESTION, listing(self._preview.items))

        @tool(
            name=ACCEPT,
            description="The user accepts parts of a preview.",
            access=ToolAccess("question"),
            read_only=True,
            has_effects=False,
            category="planning",
            offered=AcceptPreviewInput,
            asks="question",
            limits=ToolLimits(seconds=None),
            title=lambda _input: "Preview: what this turn would change",
            preview=shown,
        )
        async def accept_preview(input: AnsweredPreviewInput) -> ToolResult:
            preview = self._preview
            answer = input.answers.get(QUESTION, "")
            chosen = numbers_in(answer, preview.items)
            listed = [{"number": item.number, "kind": item.kind, "title": item.title} for item in preview.items]
            structured = {"items": listed}
            if chosen is None:
                return ToolResult(
                    f"{WAITS}\n{listing(preview.items)}",
                    display={"answers": {QUESTION: f"No answer yet. {WAITS}"}},
                    structured=structured,
                )
            text, self._codes = await self._feature.accept(preview, sorted(chosen))
            return ToolResult(
                text,
                display={"answers": {QUESTION: "; ".join(text.splitlines())}},
                structured={**structured, "accepted": sorted(chosen)},
            )

        return accept_preview


WAITS = (
    "Nothing was changed. The preview waits: /preview shows it, /preview accept 1 3 (or all) accepts, "
    "/preview decline drops it."
)


def listing(items: Sequence[Item]) -> str:
    """The items with their diffs, for those who show no form."""
    parts = [f"{item.number}. {item.title}" + (f"\n{item.detail.rstrip()}" if item.detail else "") for item in items]
    return "\n\n".join(parts)


def label_of(item: Item) -> str:
    """The item as an answer; answers are joined by commas, so it has none.

    >>> label_of(Item(2, "file", "a, b.py (new file, +1 -0)", ""))
    '2. a; b.py (new file; +1 -0)'
    """
    return f"{item.number}. {item.title}".replace(",", ";")


def numbers_in(answer: str | Sequence[str], items: Sequence[Item]) -> set[int] | None:
    """The numbers that an answer accepts: labels, or numbers of one's own; None: there is no answer.

    >>> items = [Item(1, "file", "a.py", ""), Item(2, "file", "b.py", ""), Item(3, "code", "run", "")]
    >>> numbers_in("1. a.py, 3. run", items), numbers_in("2 3", items), numbers_in("", items)
    ({1, 3}, {2, 3}, None)
    >>> sorted(numbers_in(ALL, items)), numbers_in(NONE, items)
    ([1, 2], set())
    """
    parts = [part.strip() for part in (answer.split(", ") if isinstance(answer, str) else answer) if part.strip()]
    if not parts:
        return None
    by_label = {label_of(item): item.number for item in items}
    chosen: set[int] = set()
    for part in parts:
        if part in (ALL, "all"):
            chosen |= all_of(items)
        elif part in by_label:
            chosen.add(by_label[part])
        elif _NUMBERS.fullmatch(part):
            chosen |= {int(number) for number in re.findall(r"\d+", part)}
    return set() if NONE in parts else chosen & {item.number for item in items}


def all_of(items: Sequence[Item]) -> set[int]:
    """The numbers of all items; without that of the code if every variable comes over as data."""
    return {item.number for item in items if item.kind != "code" or item.needed}


def _all_words(items: Sequence[Item]) -> str:
    runs = any(item.kind == "code" and item.needed for item in items)
    return f"{counted(len(all_of(items)), 'change')}{', with the code, which asks' if runs else ''}."


def _choice(item: Item) -> dict[str, Any]:
    kinds = {"file": "A file.", "cell": "A cell.", "variable": "A variable, as data.", "code": "Asks, as Python does."}
    choice = {"label": label_of(item), "description": kinds[item.kind]}
    return {**choice, "preview": item.detail} if item.detail else choice


def _call(id: str, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": dict(given)}
