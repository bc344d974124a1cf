"""The tool `Variables`: what the user's namespace holds, told without running, computing or using up any of it.

It works on the main thread, where the objects belong, between what the user's cell and Claude's code do there; each
value has a time limit, and all of them have one (`docs/decisions/looking-at-variables.md`).
"""

from __future__ import annotations

import asyncio
import difflib
import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cellwright.agent.thread import CallerJobs, agent_code_running
from cellwright.agent.tool import Tool, ToolContext, ToolError, ToolLimits
from cellwright.errors import ErrorCode
from cellwright.kernel.namespace.namespace import is_code, user_variables
from cellwright.kernel.namespace.summary import SECONDS_ALL, describe, describe_all, line

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

BUSY_SECONDS = 10.0

CHARS_ALL = 40_000
DEFAULT_LIMIT = 50

DESCRIPTION = """\
See the variables of the user's kernel: names, types, shapes, dtypes, nulls, memory and first values of data frames, \
arrays, tables, models, dictionaries and other objects. Nothing is run, computed or used up by it: lazy frames, dask \
arrays, queries and iterators stay what they are, and a huge object costs no more than a small one.

Without names it lists the variables, those that were defined last first; functions, classes and modules only with \
include "all". With names it describes each in full. A name may go into the value: df.columns, config["db"].host, \
rows[0]. What only code can tell (a property, a computation) ask of Python."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "names": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 300},
            "minItems": 1,
            "maxItems": 50,
            "description": 'Variables to describe, or what stands in them: "df", "df.columns", "config[\'db\']".',
        },
        "pattern": {"type": "string", "minLength": 1, "description": "Only variables whose names fit this, as df_*."},
        "include": {
            "type": "string",
            "enum": ["data", "all"],
            "default": "data",
            "description": "Without names: data alone, or functions, classes and modules as well.",
        },
        "detail": {
            "type": "string",
            "enum": ["list", "full"],
            "description": "A line for each, or all that is known. Default: full for names, else list.",
        },
        "order": {
            "type": "string",
            "enum": ["newest", "name"],
            "default": "newest",
            "description": "What comes first in a list.",
        },
        "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "How many to skip."},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 500,
            "default": DEFAULT_LIMIT,
            "description": "How many to tell of at most.",
        },
    },
    "additionalProperties": False,
}

EXAMPLES: tuple[dict[str, Any], ...] = (
    {},
    {"names": ["df", "config['db']"]},
    {"pattern": "model_*", "include": "all", "detail": "full"},
)


def variables_tool(
    shell: InteractiveShell, jobs: CallerJobs, *, redacts: bool = True, busy_seconds: float = BUSY_SECONDS
) -> Tool:
    """The tool for `shell`; the thread that works off `jobs` looks at the variables.

    `redacts`: texts are not told whose names say that they are secrets. `busy_seconds`: how long other code that runs is
    waited for.
    """

    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> str:
        request = _Request(shell, tool_input, redacts)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(busy_seconds) as limit:

                def answer() -> str:
                    # from here on it has limits of its own
                    loop.call_soon_threadsafe(limit.reschedule, None)
                    return request.answer()

                return await jobs.call(answer)
        except TimeoutError:
            message = f"The kernel has been busy with other code for {busy_seconds:g} s. Ask again when it is done."
            raise ToolError(message, code=ErrorCode.EXECUTION_TIMEOUT) from None

    return Tool(
        name="Variables",
        description=DESCRIPTION,
        input_schema=SCHEMA,
        input_examples=EXAMPLES,
        call=call,
        read_only=True,
        category="kernel",
        limits=ToolLimits(seconds=busy_seconds + 10 * SECONDS_ALL, result_chars=CHARS_ALL + 2_000),
        title=_title,
    )


def _title(tool_input: Mapping[str, Any]) -> str:
    if names := tool_input.get("names"):
        return f"Look at {', '.join(map(str, names[:5]))}{' …' if len(names) > 5 else ''}"
    return f"List variables {tool_input['pattern']}" if tool_input.get("pattern") else "List variables"


@dataclass(frozen=True, slots=True)
class _Request:
    """One call, as the main thread does it."""

    shell: InteractiveShell
    input: Mapping[str, Any]
    redacts: bool

    def answer(self) -> str:
        """What the tool gives back. Raises ToolError."""
        from cellwright.kernel.namespace.types.values import shows_secrets  # most runs look at no variable

        running, shown = agent_code_running.set(True), shows_secrets.set(not self.redacts)
        try:
            return self._named() if "names" in self.input else self._listed()
        finally:
            shows_secrets.reset(shown)
            agent_code_running.reset(running)

    def _named(self) -> str:
        from cellwright.kernel.variable_paths import NoSuchValue, value_at

        variables = dict(self.shell.user_ns)
        found: dict[str, object] = {}
        problems: list[str] = []
        for path in dict.fromkeys(self.input["names"]):
            try:
                found[path] = value_at(path, variables)
            except NoSuchValue as problem:
                problems.append(f"{problem}{_near(path, user_variables(self.shell))}")
        if not found:
            raise ToolError(" ".join(problems), code=ErrorCode.INVALID_PARAMETERS)
        return "\n".join([*self._texts(found, self.input.get("detail", "full")), *problems])

    def _listed(self) -> str:
        variables = user_variables(self.shell)
        shown = [name for name, value in variables.items() if self.input.get("include") == "all" or not is_code(value)]
        left_out = len(variables) - len(shown)
        if pattern := self.input.get("pattern"):
            shown = [name for name in shown if fnmatch.fnmatchcase(name, pattern)]
        shown = sorted(shown) if self.input.get("order") == "name" else shown[::-1]
        offset, limit = self.input.get("offset", 0), self.input.get("limit", DEFAULT_LIMIT)
        page = {name: variables[name] for name in shown[offset : offset + limit]}
        notes = []
        if (more := len(shown) - offset - len(page)) > 0:
            notes.append(f"[{more:,} more: go on with offset={offset + len(page)}]")
        if left_out:
            notes.append(f'[functions, classes and modules: {left_out:,}; include="all" lists them]')
        if not page:
            fit = f" that fits {pattern}" if pattern else ""
            notes.insert(0, f"There is no variable{fit}." if offset == 0 else "There are no more variables.")
        return "\n".join([*self._texts(page, self.input.get("detail", "list")), *notes])

    def _texts(self, values: Mapping[str, object], detail: str) -> list[str]:
        texts: list[str] = []
        room = CHARS_ALL
        for _, text in describe_all(values, describe if detail == "full" else line):
            if room < 0:
                return [*texts, f"[{len(values) - len(texts):,} more do not fit: ask for fewer]"]
            texts.append(text)
            room -= len(text)
        return texts


def _near(path: str, variables: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(path.partition(".")[0].partition("[")[0], variables, n=3)
    return f" Did you mean {' or '.join(near)}?" if near and path not in variables else ""
