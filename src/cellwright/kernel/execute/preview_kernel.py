"""The kernel of a preview: all its code runs in one branch, whose files are the copied ones, and nothing in the kernel.

The branch is made with the first code, from a snapshot of the turn's beginning, and lives until the preview is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from cellwright.agent.tool import Content, Tool, ToolAccess, ToolContext, ToolResult
from cellwright.conversation.kernel_copies import UsedBranch
from cellwright.errors import ErrorCode, ToolError
from cellwright.kernel.branches.bounds import branches_enforced
from cellwright.kernel.branches.kernel_branches import KernelBranches, unsupported
from cellwright.kernel.branches.snapshot import NoBranch
from cellwright.kernel.branches.taken_values import ChangedVariable, reported
from cellwright.kernel.cells.notebook_run import Runner, chosen_cells, notebook_run_tool
from cellwright.kernel.execute.branch_tool import branch_tool, passive_outputs
from cellwright.kernel.namespace.variables_tool import variables_tool
from cellwright.tools.notebook.file_notebook import FileNotebook, cells_of
from cellwright.tools.notebook.open_notebook import cell_name
from cellwright.tools.paths import real_path, resolve_path

if TYPE_CHECKING:
    from cellwright.agent.calls.approval import Confinement
    from cellwright.conversation.kernel_copies import CopiedFiles
    from cellwright.kernel.branches.branch import Branch
    from cellwright.kernel.cells.notebook_run import NotebookRunInput

OWNER = "preview"
SECONDS = 120.0
"""The time that the branch may take to describe its variables, and to write one of them."""

WORDS = "Preview: a copy of your kernel"
BEGAN_ANEW = "The preview's copy of the kernel had ended, so this is a new one: variables of earlier calls are gone"


class KernelOfPreview:
    """The copy of the kernel for one preview. `setting` is that of `cellwright.branches`.

    `before_code` is awaited before a variable of the kernel changes; `redacts` is that of `Variables`.
    """

    def __init__(
        self,
        kernel: KernelBranches,
        runner: Runner,
        *,
        setting: Callable[[], str],
        seconds: float | None,
        before_code: Callable[[str], Awaitable[None]] | None,
        redacts: bool,
    ) -> None:
        self._kernel = kernel
        self._runner = runner
        self._setting = setting
        self._before_code = before_code
        self._tree: CopiedFiles | None = None
        self._lock = asyncio.Lock()
        self._branch: Branch | None = None
        self._began = False
        self.codes: list[str] = []
        """The code that has run to its end, in order."""
        self.problem = ""
        """The reason why its variables are not known, as a sentence."""
        self.outputs: dict[tuple[str, str], tuple[str, tuple[Mapping[str, Any], ...]]] = {}
        branch = branch_tool(self, branches_enforced, seconds)
        code = replace(branch, call=self._noting(branch))
        tools = (code, replace(code, name="Python"), self._notebook_run(branch))
        self.tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self.looking = variables_tool(runner.shell, runner.jobs, redacts=redacts, branches=self, in_preview=True)

    @property
    def setting(self) -> str:
        return self._setting()

    def first_use(self) -> str:
        """Nothing: that it is a preview is known."""
        return ""

    def refusal(self) -> str:
        """Say why this kernel has no previews, as a sentence; "" if it may have one."""
        if self._setting() == "off":
            return "Branches of the kernel are switched off (`cellwright.branches`)."
        return unsupported() or branches_enforced() or ""

    async def begin(self, tree: CopiedFiles) -> str:
        """Copy the kernel as it is now; gives why that cannot be, as a sentence."""
        self._tree = tree
        try:
            await self._kernel.snapshot()
        except NoBranch as error:
            return error.reason
        return ""

    @contextlib.asynccontextmanager
    async def use(self, _owner: str, confinement: Confinement | None) -> AsyncIterator[UsedBranch]:
        """Give the one branch to one call at a time, whichever agent it is of."""
        async with self._lock:
            branch, words = await self._living(confinement)
            try:
                yield UsedBranch(branch, words)
            finally:
                await self._rest()

    @contextlib.asynccontextmanager
    async def own(self, _owner: str) -> AsyncIterator[UsedBranch | None]:
        """Give the branch to one look at its variables; None before any code has run: the kernel has the same then."""
        async with self._lock:
            if self._branch is None or not self._branch.alive:
                yield None
                return
            try:
                yield UsedBranch(self._branch, WORDS)
            finally:
                await self._rest()

    @contextlib.asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """No code runs in the copy within: nothing swaps a file for a link between a look at it and its use."""
        async with self._lock:
            yield

    async def _rest(self) -> None:
        if self._branch is not None and self._branch.alive:
            await self._branch.rest()

    async def _living(self, confinement: Confinement | None) -> tuple[Branch, str]:
        assert self._tree is not None
        if confinement is None:
            reason = "A preview runs code only where the system confines it."
            raise NoBranch(reason)
        branch = await self._kernel.branch(OWNER, confinement, (str(self._tree.root),))
        words = WORDS
        if branch is not self._branch:
            if self._began:
                words, self.codes[:] = BEGAN_ANEW, []
            self._branch, self._began = branch, True
            # the place in the copy of the folder that the kernel is in
            place = self._tree.staged(Path.cwd())
            folder = place if place is not None and place.is_dir() else self._tree.root
            await branch.ask(f"{reported.__module__}:remember_variables", str(folder), timeout=SECONDS)
        return branch, words

    def _noting(self, branch: Tool) -> Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult | Content]]:
        async def call(given: dict[str, Any], ctx: ToolContext) -> ToolResult | Content:
            known = set(branch.input_schema["properties"])
            result = await branch.call({name: value for name, value in given.items() if name in known}, ctx)
            if isinstance(result, ToolResult) and not result.is_error:
                assert self._tree is not None
                self.codes.append(self._tree.in_project(str(given["code"])))
            return result

        return call

    # ------------------------------------------------------------ cells

    def _notebook_run(self, branch: Tool) -> Tool:
        usual = notebook_run_tool(self._runner)

        async def call(given: dict[str, Any], ctx: ToolContext) -> ToolResult | Content:
            assert usual.input_type is not None
            input: Any = usual.input_type.from_json(given)
            async with self.still():
                notebook, name = self._staged_notebook(input)
                there = await notebook.cells(outputs=False)
            cells = self._chosen(there, input, name)
            said: list[Any] = []
            failed = False
            for cell in cells:
                content, failed, outputs = await self._cell(branch, cell.source, input, ctx)
                said.append(f"{cell_name(cell.position, None, cell.source)}:")
                said += [content] if isinstance(content, str) else content
                kept = tuple(outputs)
                self.outputs[name, cell.id] = (cell.sha256, kept)
                async with self.still():
                    self._staged_notebook(input)  # the cell may have put a link in its place
                    with contextlib.suppress(ToolError):  # the cell was changed meanwhile
                        await notebook.put_outputs(cell.id, expect=cell.sha256, outputs=kept, clear=True)
                if failed:
                    said.append("[The cells behind it did not run.]")
                    break
                self.codes.append(cell.source)
            blocks = [{"type": "text", "text": each} if isinstance(each, str) else each for each in said]
            return ToolResult(blocks, is_error=failed)

        def facts(given: Mapping[str, Any]) -> Mapping[str, Any]:
            assert branch.facts is not None
            assert usual.input_type is not None
            return {**branch.facts({"code": ""}), "code": self._sources(usual.input_type.from_json(given))}

        async def prepare(_given: Mapping[str, Any]) -> None:
            assert branch.prepare is not None
            await branch.prepare({"code": ""})

        return replace(
            usual, access=ToolAccess("branch", "code"), call=call, facts=facts, prepare=prepare, has_effects=False
        )

    async def _cell(
        self, branch: Tool, source: str, input: NotebookRunInput, ctx: ToolContext
    ) -> tuple[Content, bool, list[Mapping[str, Any]]]:
        """Run one cell; what Claude is told, whether it failed, and its outputs."""
        outputs: list[Mapping[str, Any]] = []
        given = {"code": source, "timeout_seconds": input.timeout_seconds}
        with passive_outputs(outputs):
            try:
                result = await branch.call(given, ctx)
            except ToolError as error:
                return error.message, True, outputs
        assert isinstance(result, ToolResult)
        return result.content, result.is_error, outputs

    def _staged_notebook(self, input: NotebookRunInput) -> tuple[FileNotebook, str]:
        assert self._tree is not None
        own = self._runner.notebooks.own()
        named = own.path if input.notebook_path is None and own is not None else input.notebook_path
        if named is None:
            message = "Which notebook this kernel runs is not known here. Name it, or run the code with Python."
            raise ToolError(message, code=ErrorCode.FILE_NOT_FOUND)
        given = resolve_path(self._runner.cwd, str(named))
        # a call has the path in the copy, the rules judge the user's own
        path = given if given.is_relative_to(self._tree.root) else self._tree.staged(real_path(given))
        if path is None or (own is not None and path != self._tree.staged(own.path)):
            message = (
                "In a preview, only cells of the notebook that this kernel runs can be run, if it is in the project."
            )
            raise ToolError(message, code=ErrorCode.FILE_PATH_INVALID)
        if refusal := self._tree.refusal(path):
            raise ToolError(refusal)
        return FileNotebook(path), self._tree.name_of(path)

    def _chosen(self, cells: Sequence[Any], input: NotebookRunInput, name: str) -> Sequence[Any]:
        return chosen_cells(cells, input, self._runner.own_cell(), self._runner.log, name)

    def _sources(self, given: Any) -> str:
        """All code that a call would run, for rules about what it names; none if that is not known yet."""
        try:
            notebook, name = self._staged_notebook(given)
            chosen = self._chosen(cells_of(notebook.path.read_bytes()), given, name)
        except (ToolError, OSError, ValueError, KeyError, TypeError, AttributeError):
            return ""
        return "\n".join(cell.source for cell in chosen)

    # ------------------------------------------------------------ variables

    async def variables(self) -> Sequence[ChangedVariable]:
        """The variables that the code has changed; none if the branch cannot say."""
        async with self._lock:
            self.problem = ""
            if self._branch is None:
                return ()
            try:
                return reported(await self._branch.ask(f"{reported.__module__}:report_changes", None, timeout=SECONDS))
            except NoBranch as error:
                self.problem = f"Its variables are lost: {error}"
                return ()
            finally:
                await self._rest()

    async def take(self, names: Sequence[str]) -> Mapping[str, str]:
        """Give the kernel the values of `names`, as data, once no cell of the user's runs; by name, why one did not come."""
        problems: dict[str, str] = {}
        values: dict[str, Any] = {}
        async with self._lock:
            for name in names:
                try:
                    values[name] = await self._kernel.value(OWNER, name)
                except NoBranch as error:
                    problems[name] = error.reason.rstrip(".")
        if values:
            if self._before_code is not None:
                await self._before_code("\n".join(f"{name} = ..." for name in values))
            await self._kernel.bind(values)
        return problems

    async def close(self) -> None:
        """End the branch and the snapshot."""
        await self._kernel.close()
