"""Our tools and notebooks as an MCP server offers them: definitions, calls with their questions, results, resources.

What may be called and under which rules is the business of whoever makes a `ToolCaller`. Of what a client says only its
answers to questions are believed: it is the program that the user works in. A notebook is a resource: one Markdown text
and its pictures.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, unquote, urlsplit

from cellwright.agent.calls.approval import Allow, CanUseTool, Deny, ToolUse
from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Content, Tool, ToolAccess, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import ToolEnd
from cellwright.markdown.escaping import fenced
from cellwright.text import counted, lazy_pattern, visible
from cellwright.this_process.late_imports import importing
from cellwright.tools.inputs import NotebookPath
from cellwright.tools.mcp.kernel_tools import (
    KERNEL_TOOLS,
    MAX_QUESTION_CHARS,
    NOTEBOOK_TOOLS,
    CallAnswer,
    CallQuestion,
    KernelCaller,
    KernelTool,
    TellProgress,
    answer_of_choice,
    decision_of,
    question_of,
)
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import Cell
from cellwright.tools.paths import not_found, real_path, resolve_path, shown_path
from cellwright.tools.search.glob import glob_tool
from cellwright.version import VERSION

with importing:
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError
    from mcp_types import (
        INVALID_PARAMS,
        BlobResourceContents,
        CallToolResult,
        ElicitRequest,
        ElicitRequestFormParams,
        ElicitResult,
        EmbeddedResource,
        ImageContent,
        InputRequiredResult,
        ListResourcesResult,
        ListResourceTemplatesResult,
        ListToolsResult,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        TextContent,
        TextResourceContents,
        ToolAnnotations,
    )
    from mcp_types import Tool as ToolDefinition
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS


if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams, ContentBlock, PaginatedRequestParams, ReadResourceRequestParams


SCHEME = "notebook"
MAX_ARGUMENT_CHARS = 16 * 2**20
MAX_CALLS = 16
"""Calls of one server that go on at once; more wait."""

QUESTION = "permission"

INSTRUCTIONS = (
    "Files, Jupyter notebooks and their kernels in one folder, under the user's permission rules. Paths are relative to "
    "the folder or absolute. What a rule does not allow is put to the user or denied; a denial names the rule that would "
    "allow it. A file is read before it is changed."
)

OUTPUT_CHARS = 2_000
"""Of one output."""

MAX_IMAGES = 20
IMAGE_CHARS = 7_000_000
"""Of one picture in base64; larger ones are not shown."""

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_TERMINAL_CODES = lazy_pattern(r"\x1b\[[0-9;?]*[A-Za-z]")


class ToolCaller(Protocol):
    """Calls tools under the user's rules."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that are there now."""

    def denial(self, name: str, tool_input: Mapping[str, Any]) -> str:
        """Say why the rules deny a call; empty where they do not."""

    def denies(self, name: str, access: ToolAccess) -> bool:
        """Return whether a rule denies a tool as a whole that is not among `tools`."""

    async def call(
        self, name: str, tool_input: Mapping[str, Any], ask_user: CanUseTool | None, tool: Tool | None = None
    ) -> ToolEnd:
        """Call the tool of that name, or the given one in its place; its end, whatever comes of it."""


def make_server(calls: ToolCaller, cwd: Path, kernels: KernelCaller | None = None) -> Server[Any]:
    """An MCP server of the tools of `calls`, the notebooks below `cwd` and the `kernels` that there are for them."""
    served = _Served(calls, cwd, kernels)
    return Server(
        "cellwright",
        version=VERSION,
        title="Cellwright",
        instructions=INSTRUCTIONS,
        on_list_tools=served.list_tools,
        on_call_tool=served.call_tool,
        on_list_resources=served.list_resources,
        on_list_resource_templates=served.list_templates,
        on_read_resource=served.read_resource,
    )


class _Served:
    def __init__(self, calls: ToolCaller, cwd: Path, kernels: KernelCaller | None) -> None:
        self._calls = calls
        self._kernels = kernels
        self._cwd = cwd
        # resources are there whichever tools are offered
        self._glob, self._markdown = glob_tool(cwd), notebook_markdown_tool(cwd)
        self._key = secrets.token_bytes(32)
        self._slots = asyncio.Semaphore(MAX_CALLS)

    async def list_tools(
        self, _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[definition_of(tool) for tool in self._tools])

    @property
    def _tools(self) -> Sequence[Tool | KernelTool]:
        in_kernels = () if self._kernels is None else self._kernels.tools
        # a kernel in another folder has other rules: what is denied here is denied there, too
        return (*self._calls.tools, *(tool for tool in in_kernels if not self._calls.denies(tool.name, tool.access)))

    async def call_tool(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        arguments = params.arguments or {}
        if len(json.dumps(arguments)) > MAX_ARGUMENT_CHARS:
            refusal = f"The arguments are longer than {MAX_ARGUMENT_CHARS:,} characters. Nothing was done."
            return CallToolResult(content=content_of(refusal), is_error=True)
        if params.name not in {tool.name for tool in self._tools}:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {visible(params.name[:100])}")
        question = _Question(context, params, self._key)
        progress = _Progress(context, params.name)
        async with self._slots, progress:
            end = await self._end(params.name, arguments, question, progress.tell)
        return question.to_be_answered or result_of(end)

    async def _end(self, name: str, arguments: Mapping[str, Any], question: _Question, tell: TellProgress) -> ToolEnd:
        if self._kernels is not None and name in (*KERNEL_TOOLS, *NOTEBOOK_TOOLS):
            # a kernel has rules of its own, for its folder; what this one's deny is denied
            if name in NOTEBOOK_TOOLS and (reason := self._calls.denial(name, arguments)):
                return ToolEnd("", name, "denied", reason, 0.0)
            end = await self._kernels.call(name, arguments, question.put if question.can_ask else None, tell)
            if end is not None:
                return end
        return await self._calls.call(name, arguments, question.ask if question.can_ask else None)

    async def list_resources(
        self, _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        end = await self._calls.call(self._glob.name, {"pattern": "**/*.ipynb"}, None, self._glob)
        found = end.structured.get("filenames", ()) if isinstance(end.structured, dict) else ()
        paths = []
        for name in found:
            with contextlib.suppress(ValueError):  # outside of the folder
                paths.append((self._cwd / name).relative_to(self._cwd).as_posix())
        listed = [
            Resource(uri=f"{SCHEME}:///{quote(path)}", name=path, mime_type="text/markdown") for path in sorted(paths)
        ]
        return ListResourcesResult(resources=listed)

    async def list_templates(
        self, _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        template = ResourceTemplate(
            uri_template=f"{SCHEME}:///{{+path}}",
            name="notebook",
            description="The cells of a notebook as Markdown, by its path in the folder",
            mime_type="text/markdown",
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        self, _context: ServerRequestContext[Any], params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        if (path := notebook_path(params.uri)) is None:
            raise MCPError(INVALID_PARAMS, f"A resource here is {SCHEME}:/// and the path of a notebook.")
        async with self._slots:
            end = await self._calls.call(self._markdown.name, {"notebook_path": path}, None, self._markdown)
        if end.status != "success":
            raise MCPError(INVALID_PARAMS, _text_of(end.content))
        text = TextResourceContents(uri=params.uri, mime_type="text/markdown", text=_text_of(end.content))
        blocks = [] if isinstance(end.content, str) else end.content
        sources = [block["source"] for block in blocks if block["type"] == "image"]
        images = [
            BlobResourceContents(
                uri=f"{params.uri}#image-{number}", mime_type=source["media_type"], blob=source["data"]
            )
            for number, source in enumerate(sources, 1)
        ]
        return ReadResourceResult(contents=[text, *images])


class _Progress:
    """News of a call while it is open, for a client that asked for them: of what comes quickly, the last.

    What MCP calls progress is the time in seconds, for it has to rise.
    """

    def __init__(self, context: ServerRequestContext[Any], name: str) -> None:
        self._session = context.session
        self._wanted = (context.meta or {}).get("progress_token") is not None
        self._words = f"{name} is at work"
        self._has_news = self._has_ended = False
        self._wakes = asyncio.Event()
        self._reports: asyncio.Task[None] | None = None

    def tell(self, words: str) -> None:
        """Take in what the call is at."""
        self._words = words
        self._has_news = True
        self._wakes.set()

    async def __aenter__(self) -> None:
        if self._wanted:
            self._reports = asyncio.create_task(self._report())

    async def __aexit__(self, kind: type[BaseException] | None, *_more: object) -> None:
        if self._reports is None:
            return
        if kind is not None:
            self._reports.cancel()
        self._has_ended = True
        self._wakes.set()
        # a client that has left takes no news; its call is cancelled by itself
        await asyncio.gather(self._reports, return_exceptions=True)

    async def _report(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self._has_news or not self._has_ended:
            with contextlib.suppress(TimeoutError):
                # the longest time without news of a call, for a client that wants them: some end a call of which
                # nothing is heard
                async with asyncio.timeout(5.0):
                    await self._wakes.wait()
            self._wakes.clear()
            if self._has_news or not self._has_ended:
                self._has_news = False
                await self._session.report_progress(loop.time() - began, message=self._words)


class _Question:
    """The question that a call may come to, put to the user of the client within the call.

    Clients of the protocol of 2026 get it as the call's result, and call again with the answer; nothing is done before.
    """

    def __init__(self, context: ServerRequestContext[Any], params: CallToolRequestParams, key: bytes) -> None:
        elicitation = (
            None if context.session.client_capabilities is None else context.session.client_capabilities.elicitation
        )
        # before there were two kinds, this one was not named
        self.can_ask = elicitation is not None and (elicitation.form is not None or elicitation.url is None)
        self.to_be_answered: InputRequiredResult | None = None
        self._context, self._params, self._key = context, params, key
        self._answers_later = context.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def ask(self, use: ToolUse) -> Allow | Deny:
        """Answer a call that is made here."""
        question = question_of(use)
        if len(question.text) > MAX_QUESTION_CHARS:
            return Deny(f"It is too long to be shown in a question. {question.unasked}", "policy")
        return decision_of(await self.put(question), question)

    async def put(self, question: CallQuestion) -> CallAnswer:
        """Put a question, of whatever process."""
        answer = self._given(question) if self._answers_later else await self._answer(question)
        if answer is None:
            return "later"
        return answer_of_choice((answer.content or {}).get("answer")) if answer.action == "accept" else "deny"

    async def _answer(self, question: CallQuestion) -> ElicitResult:
        context = self._context
        answer: ElicitResult = await context.session.elicit_form(
            question.text, question.form, related_request_id=context.request_id
        )
        return answer

    def _given(self, question: CallQuestion) -> ElicitResult | None:
        """The answer that came with the call, if it is one to this very question; else the question, to be answered."""
        about = json.dumps([self._params.name, self._params.arguments, question.text], sort_keys=True)
        state = hmac.new(self._key, about.encode("utf-8", "backslashreplace"), hashlib.sha256).hexdigest()
        given = (self._params.input_responses or {}).get(QUESTION)
        asked = (self._params.request_state or "").encode("utf-8", "backslashreplace")
        if isinstance(given, ElicitResult) and hmac.compare_digest(asked, state.encode()):
            return given
        form = ElicitRequestFormParams(message=question.text, requested_schema=question.form)
        request = ElicitRequest(params=form)
        self.to_be_answered = InputRequiredResult(input_requests={QUESTION: request}, request_state=state)
        return None


def definition_of(tool: Tool | KernelTool) -> ToolDefinition:
    """A tool as clients are told of it. Its results' form is not promised: what is too long in them is left out."""
    return ToolDefinition(
        name=tool.name,
        description=tool.description if isinstance(tool, KernelTool) else tool.to_param()["description"],
        input_schema=dict(tool.input_schema),
        annotations=ToolAnnotations(
            read_only_hint=tool.read_only, destructive_hint=not tool.read_only, open_world_hint=False
        ),
    )


def result_of(end: ToolEnd) -> CallToolResult:
    """A call's end as its result: texts, images, files, and the structured result where it is an object."""
    structured = end.structured if isinstance(end.structured, dict) else None
    return CallToolResult(
        content=content_of(end.content), structured_content=structured, is_error=end.status != "success"
    )


def content_of(content: Content) -> list[ContentBlock]:
    """Content blocks of the Messages API as those of MCP."""
    if isinstance(content, str):
        return [TextContent(text=content)]
    blocks: list[ContentBlock] = []
    for block in content:
        source = block.get("source", {})
        if block["type"] == "text":
            blocks.append(TextContent(text=str(block["text"])))
        elif source.get("type") == "text":  # a document of plain text
            blocks.append(TextContent(text=str(source["data"])))
        elif block["type"] == "image":
            blocks.append(ImageContent(data=source["data"], mime_type=source["media_type"]))
        else:
            resource = BlobResourceContents(uri="document:///", mime_type=source["media_type"], blob=source["data"])
            blocks.append(EmbeddedResource(resource=resource))
    return blocks


def _text_of(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block["text"]) for block in content if block["type"] == "text")


def notebook_path(uri: str) -> str | None:
    """The path, in the folder, of the notebook that is the resource `uri`; None for other addresses.

    >>> notebook_path("notebook:///plots/a%20b.ipynb"), notebook_path("notebook://host/a.ipynb"), notebook_path("file:///a")
    ('plots/a b.ipynb', None, None)
    """
    try:
        address = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(address.path).lstrip("/")
    is_ours = address.scheme == SCHEME and not (address.netloc or address.query or address.fragment)
    return path if is_ours and path and "\0" not in path else None


class NotebookMarkdownInput(ToolInput):
    """The notebook to show."""

    notebook_path: NotebookPath


def notebook_markdown_tool(cwd: Path) -> Tool:
    """A tool that gives a notebook file's cells and the text of their outputs as Markdown, then the pictures that the text
    names by their numbers; relative paths start at `cwd`.
    """

    # rules, hooks and the log know it as what it is; the category has secrets looked for in all of the text, since
    # nobody edits cells by it
    @tool(
        name="NotebookRead",
        description="Show a notebook as Markdown.",
        access=ToolAccess("read", "notebook_path"),
        read_only=True,
        category="kernel",
    )
    async def notebook_markdown(input: NotebookMarkdownInput) -> ToolResult:
        path = real_path(resolve_path(cwd, input.notebook_path))
        display_path = shown_path(cwd, path)
        if path.suffix.lower() != ".ipynb":
            raise ToolError(f"{display_path} is not a notebook (.ipynb).", code=ErrorCode.FILE_PATH_INVALID)
        if not path.is_file():
            raise not_found(path, display_path)
        images: list[dict[str, Any]] = []
        text = markdown_of(await FileNotebook(path).cells(), images)
        return ToolResult([{"type": "text", "text": text}, *images] if images else text)

    return notebook_markdown


def markdown_of(cells: Iterable[Cell], images: list[dict[str, Any]] | None = None) -> str:
    """Cells as Markdown: text as it is, code and the text of outputs in blocks that nothing in them can end.

    Pictures are added to `images`, as blocks of the Messages API; the text says which are there, and how many are not.

    >>> print(markdown_of([Cell(id="a", cell_type="code", source="1 + 1", position=0)]))
    ```python
    1 + 1
    ```
    """
    parts = [part for cell in cells for part in _parts(cell, [] if images is None else images)]
    return "\n\n".join(parts) or "(a notebook without cells)"


def _parts(cell: Cell, images: list[dict[str, Any]]) -> Iterator[str]:
    if cell.cell_type == "markdown":
        yield cell.source
        return
    yield fenced(cell.source, "python" if cell.cell_type == "code" else "text")
    for output in cell.outputs:
        if text := _output_text(output, images).strip():
            cut = len(text) - OUTPUT_CHARS
            yield fenced(f"{text[:OUTPUT_CHARS]}\n[… {cut:,} more characters]" if cut > 0 else text, "text")


def _output_text(output: Mapping[str, Any], images: list[dict[str, Any]]) -> str:
    match output.get("output_type"):
        case "stream":
            return _plain(output.get("text"))
        case "error":
            return f"{_plain(output.get('ename'))}: {_plain(output.get('evalue'))}"
        case _:
            data = output.get("data")
            data = data if isinstance(data, Mapping) else {}
            notes = "".join(f"\n{note}" for note in _image_notes(data, images))
            return f"{_plain(data.get('text/plain'))}{notes}"


def _image_notes(data: Mapping[str, Any], images: list[dict[str, Any]]) -> Iterator[str]:
    """Say which pictures an output has; those that can be shown are added to `images`."""
    left_out = 0
    for kind in (str(kind) for kind in data if str(kind).startswith("image/")):
        image = "".join(_joined(data[kind]).split())
        if kind in IMAGE_TYPES and len(images) < MAX_IMAGES and len(image) <= IMAGE_CHARS and _is_base64(image):
            images.append({"type": "image", "source": {"type": "base64", "media_type": kind, "data": image}})
            yield f"[image {len(images)}]"
        else:
            left_out += 1
    if left_out:
        yield f"[{counted(left_out, 'image')} not shown]"


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def _plain(text: Any) -> str:
    return _TERMINAL_CODES.sub("", _joined(text))


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text or "")
