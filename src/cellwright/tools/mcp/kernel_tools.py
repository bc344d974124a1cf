"""The tools that need a kernel, as other agents are told of them, and the question whether a call of theirs may be made.

Which kernel is one more argument of each tool. The kernel has the tools themselves (`cellwright.kernel`), and judges and
makes the calls; the user reads and answers the question wherever they are asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, cast, get_args

from msgspec import Struct

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.agent.calls.permission_gate import no_user_text
from cellwright.agent.calls.tool_names import name_with
from cellwright.agent.tool import ToolAccess
from cellwright.events import ToolEnd
from cellwright.text import visible
from cellwright.tools.inputs import MIN_SECONDS

MAX_QUESTION_CHARS = 20_000
"""A question shows the whole of what it asks about: what is longer is not asked."""

ONCE, SESSION, NO = "Allow once", "Allow from now on", "Deny"

CallAnswer = Literal["once", "session", "deny", "later"]
"""`session` adds the question's rules; `later`: the answer comes with another call, so this one is not made."""

_BY_CHOICE: dict[Any, CallAnswer] = {ONCE: "once", SESSION: "session"}


class CallQuestion(Struct, frozen=True):
    """`rules` is what a yes from now on adds, empty where it may not; `unasked` says why there is no call unasked."""

    text: str
    rules: tuple[str, ...]
    unasked: str

    @property
    def choices(self) -> list[str]:
        """The answers to choose from."""
        return [ONCE, *([SESSION] if self.rules else []), NO]

    @property
    def form(self) -> dict[str, Any]:
        """The schema of the form that a client of MCP shows."""
        answer = {"type": "string", "title": "May this be done?", "enum": self.choices}
        return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


def question_of(use: ToolUse) -> CallQuestion:
    """The question that `use` comes to."""
    offered = [suggestion.rules for suggestion in use.decision.suggestions if suggestion.rules]
    rules = tuple(offered[-1]) if offered and not use.decision.firm else ()
    later = f"“{SESSION}” adds the rule {', '.join(rules)} until this server ends." if rules else ""
    preview = use.preview
    parts = (preview.title, preview.warning, preview.detail, use.decision.reason, later)
    return CallQuestion("\n\n".join(visible(part) for part in parts if part), rules, no_user_text(use))


def answer_of_choice(choice: object) -> CallAnswer:
    """The answer that the words mean which the user chose; anything else is a no.

    >>> answer_of_choice("Allow once"), answer_of_choice("by all means")
    ('once', 'deny')
    """
    return _BY_CHOICE.get(choice, "deny") if isinstance(choice, str) else "deny"


def read_answer(value: object) -> CallAnswer:
    """An answer as another process sends it; what is none is a no."""
    return cast("CallAnswer", value) if value in get_args(CallAnswer) else "deny"


def decision_of(answer: CallAnswer, question: CallQuestion) -> Allow | Deny:
    """The decision that the answer is. A yes from now on to what no rule can allow is none."""
    if answer == "session" and question.rules:
        return Allow(scope="session", rules=question.rules)
    if answer == "later":
        return Deny("the user has yet to answer", "policy")
    return Allow() if answer == "once" else Deny("the user said no")


AskQuestion = Callable[[CallQuestion], Awaitable[CallAnswer]]
"""Puts a question to the user of the client."""

TellProgress = Callable[[str], None]
"""Takes what a call is at, in words, for a client that asked for it."""

SERVED_TOOLS = ("@read", "Edit", "Write", "NotebookEdit")
"""The choice of tools that are offered unless the user chooses."""

MAY_BE_SERVED = ("@read", "@edit")
"""The choice that the user has: what works on files alone, and needs neither a kernel nor a model. KERNEL_TOOLS come
besides."""

KERNEL_TOOLS = ("NotebookRun", "Variables", "Python")
"""The tools whose calls go to a kernel, whatever they are about."""

NOTEBOOK_TOOLS = (
    name_with("read", "file_path"),
    name_with("read", "notebook_path"),
    name_with("edit", "notebook_path"),
)
"""The tools whose calls go to the kernel of the notebook that they name, where it has one."""


class KernelCaller(Protocol):
    """Calls tools in kernels, each under the rules that hold there."""

    @property
    def tools(self) -> Sequence[KernelTool]:
        """The tools to offer."""

    async def call(
        self, name: str, tool_input: Mapping[str, Any], ask: AskQuestion | None, tell: TellProgress
    ) -> ToolEnd | None:
        """Call the tool in the kernel that the input names. None: the call is about nothing that a kernel has.

        `ask` puts what has to be asked; None: the client cannot show questions. `tell` is told what the call is at. What is
        wrong is said by the end.
        """


class KernelTool(Struct, frozen=True):
    """A tool as clients are told of it."""

    name: str
    description: str
    properties: Mapping[str, Any]
    access: ToolAccess
    required: tuple[str, ...] = ()
    read_only: bool = False

    @property
    def input_schema(self) -> dict[str, Any]:
        """The schema of its input."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }


def kernel_tools(names: Sequence[str], *, by_id: bool) -> tuple[KernelTool, ...]:
    """Those of these names. `by_id`: the kernels are a Jupyter Server's, which have ids besides their notebooks; else each
    notebook has one that is started for it, and the folder one of its own.
    """
    without = "It may be omitted if there is only one." if by_id else "Without it a kernel of the folder's own is."
    of_notebook = {"type": "string", "description": f"The notebook whose kernel is meant, by its path. {without}"}
    of_kernel = {"type": "string", "description": "The kernel that is meant, by its id, in place of notebook_path."}
    which = {"notebook_path": of_notebook, **({"kernel_id": of_kernel} if by_id else {})}
    tools = (
        KernelTool("NotebookRun", _NOTEBOOK_RUN, {**which, **_RUN}, ToolAccess("cells", "notebook_path")),
        KernelTool("Variables", _VARIABLES, {**which, **_LOOK}, ToolAccess("variables"), read_only=True),
        KernelTool("Python", _PYTHON, {**which, **_CODE}, ToolAccess("python", "code"), ("code",)),
    )
    return tuple(tool for tool in tools if tool.name in names)


_NOTEBOOK_RUN = """\
Run code cells of a notebook in its kernel, as if its user had run them: variables change, and outputs and execution \
counts appear in the cells. You get the outputs too, figures as images. Choose by cell_ids (in the order given) or by \
which: "all", or "stale" (changed since they ran, and what depends on them); NotebookRead shows the ids. The first cell \
that fails ends the run."""

_VARIABLES = """\
See the variables of a kernel: names, types, shapes, dtypes, nulls, memory and first values of data frames, arrays, \
models, dictionaries and other objects. Nothing is run or computed by it. Without names it lists the variables, with \
names it describes each in full; a name may go into the value: df.columns, config["db"].host, rows[0]."""

_PYTHON = """\
Run Python code in a kernel's live namespace, beside its notebook's cells: what it defines or changes stays. You get what \
it printed and displayed, the value of its last expression, figures as images, and a short traceback if it failed."""

_RUN: dict[str, Any] = {
    "cell_ids": {
        "type": "array",
        "items": {"type": "string", "minLength": 1},
        "minItems": 1,
        "maxItems": 200,
        "description": "The cells to run, by id, in this order.",
    },
    "which": {"type": "string", "enum": ["all", "stale"], "description": "The cells to run, in the notebook's order."},
    "timeout_seconds": {
        "type": "integer",
        "minimum": MIN_SECONDS,
        "maximum": 3_600,
        "description": "Seconds the cells may take together, 120 by default.",
    },
}
_LOOK: dict[str, Any] = {
    "names": {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": 300},
        "minItems": 1,
        "maxItems": 50,
        "description": 'Variables to describe, or parts of them: "df", "df.columns".',
    },
    "pattern": {"type": "string", "minLength": 1, "description": "Only variables whose names fit this, as df_*."},
    "include": {
        "type": "string",
        "enum": ["data", "all"],
        "description": "Without names: data alone (the default), or functions, classes and modules as well.",
    },
    "detail": {"type": "string", "enum": ["list", "full"], "description": "A line for each, or all that is known."},
    "order": {"type": "string", "enum": ["newest", "name"], "description": "Order of a list."},
    "offset": {"type": "integer", "minimum": 0, "description": "How many to skip."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 500, "description": "Maximum number of variables."},
}
_CODE: dict[str, Any] = {
    "code": {"type": "string", "description": "The Python code to run."},
    "timeout_seconds": {
        "type": "integer",
        "minimum": 1,
        "maximum": 86_400,
        "description": "Interrupt the code after so many seconds. Without it the code may take its time.",
    },
}
