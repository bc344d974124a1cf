"""The reference, written from the code: magics, commands, tools, settings, the command line, errors, the Python API."""

from __future__ import annotations

import argparse
import ast
import contextlib
import inspect
import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import NODEFAULT, Struct
from traitlets import HasTraits

import cellwright
from cellwright import errors
from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool
from cellwright.commands.registry import COMMANDS
from cellwright.config.settings.known_settings import KEYS, Key
from cellwright.kernel.magic.options import OPTIONS, Claude
from cellwright.server.policy import PolicyTraits, ProxyTraits
from cellwright.server.server_extension import CellwrightApp
from cellwright.terminal.arguments import parser
from cellwright.terminal.exit_codes import MEANINGS, exit_code_of
from cellwright.terminal.subcommands.subcommand_names import SUBCOMMANDS, find_subcommand
from declared_tools import declared

SCHEMA = json.loads((Path(inspect.getfile(Key)).parent / "settings.schema.json").read_text("utf-8"))
WHO = {
    "tightens": "anybody's, as it can only restrict",
    "trust": "yours; a project's once you trust it",
    "confirm": "yours; a project's after a question of its own",
    "own": "yours alone",
    "managed": "the administrator's",
}
WRAPPED = {
    "changelog.md": "../../CHANGELOG.md",
    "contributing.md": "../../CONTRIBUTING.md",
    "reporting.md": "../../SECURITY.md",
}
"""Pages that show a file of the repository's top."""


def write_pages(folder: Path) -> None:
    """Write all pages into `folder`; a page that has not changed is left alone, so that it is not built anew."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        page = folder / name
        if not page.is_file() or page.read_text("utf-8") != text:
            page.write_text(text, "utf-8")


def pages() -> dict[str, str]:
    """The pages by their names."""
    wrapped = {
        name: f"```{{include}} {file}\n:relative-docs: docs/\n:relative-images:\n```\n"
        for name, file in WRAPPED.items()
    }
    return wrapped | {
        "magics.md": _magics(),
        "slash-commands.md": _slash_commands(),
        "tools.md": _tools(),
        "settings.md": _settings(),
        "command-line.md": _command_line(),
        "errors.md": _errors(),
        "python.md": _python(),
        "server.md": _server(),
    }


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", r"\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines]) + "\n"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _sentence(text: str) -> str:
    """A line of a help text as a sentence of a table, but for one that begins with a value to be typed."""
    return (
        text
        if re.match(r"[\w-]+ (?:and [\w-]+ )?(?:are for|\(the default\))|[\w-]+: ", text)
        else text[:1].upper() + text[1:]
    )


# ---- magics ----


def _magics() -> str:
    options = [
        (
            f"`--{name} {option.kind.placeholder}`".replace(" `", "`"),
            _sentence(option.help),
            "may be given again" if option.repeats else "",
        )
        for name, option in OPTIONS.items()
    ]
    traits = [
        (f"`{name}`", trait.help, _code(repr(trait.default())))
        for name, trait in Claude.class_traits(config=True).items()
    ]
    return f"""# Magics

## `%%claude`
The first line takes options and may begin the prompt; the rest of the cell is the prompt. `%claude` does the same on
one line, and `%claude?` shows this list.

{_table(("option", "what it does", ""), options)}

## `%config Claude`
Defaults for the cells of a kernel, for example `%config Claude.mode = "acceptEdits"`. In `ipython_config.py` they are
`c.Claude.mode` and so on.

{_table(("name", "what it says", "default"), sorted(traits))}
"""


def _slash_commands() -> str:
    rows = [(f"`/{name} {each.takes}".rstrip() + "`", _sentence(each.help)) for name, each in COMMANDS.items()]
    return f"""# Slash commands

They are the same in a cell (`%claude /cost`), in the panel and in the terminal. They are answered on your machine:
nothing is added to the conversation. [Skills](../skills.md) and the prompts of [MCP servers](../mcp.md) are called the
same way.

{_table(("command", "what it does"), rows)}
"""


# ---- tools ----


def _tools() -> str:
    by_category: dict[str, list[Tool]] = {}
    for tool in declared().values():
        by_category.setdefault(tool.category, []).append(tool)
    parts = [
        "# Every tool: its input, limits and reach\n",
        "Written from the tools themselves. [Tools](../tools.md) says what they are for and when they ask.\n",
    ]
    for category in sorted(by_category):
        parts.append(f"## {category.capitalize()}\n")
        parts += [_tool(tool) for tool in sorted(by_category[category], key=lambda tool: tool.name)]
    return "\n".join(parts)


def _tool(tool: Tool) -> str:
    summary = _untagged(tool.description.split("\n\n")[0].split("\n- ")[0].replace("\n", " "))
    limits = tool.limits.in_words().removeprefix("Limits: ").rstrip(".")
    touches = tool.access.kind + (f" (`{tool.access.field}`)" if tool.access.field else "")
    about = f"**Reads only:** {'yes' if tool.read_only else 'no'} · **reaches:** {touches}" + (
        f" · **limits:** {limits}" if limits else ""
    )
    fields = _fields(tool.input_schema)
    table = _table(("field", "type", "what it is"), fields) if fields else "It takes no input.\n"
    return f"### {tool.name}\n{summary}\n\n{about}\n\n{table}"


def _fields(schema: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    required = schema.get("required", ())
    rows = []
    for name, field in schema.get("properties", {}).items():
        default = f" Default: {_code(json.dumps(field['default']))}." if "default" in field else ""
        rows.append(
            (
                f"`{name}`" + (" (required)" if name in required else ""),
                _type_of(field),
                _untagged(field.get("description", "")) + default,
            )
        )
    return rows


def _type_of(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(_code(str(value)) for value in field["enum"])
    if "anyOf" in field or "oneOf" in field:
        return " or ".join(_type_of(each) for each in field.get("anyOf", field.get("oneOf", ())))
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2]
    kind = field.get("type", "anything")
    if kind == "array":
        return f"list of {_type_of(field.get('items', {}))}"
    low, high = field.get("minimum"), field.get("maximum")
    bounds = f" {low:,} to {high:,}" if None not in (low, high) else f" ≥ {low:,}" if low is not None else ""
    return f"{kind}{bounds}" if isinstance(kind, str) else " or ".join(kind)


def _untagged(text: str) -> str:
    """Text for the model as text of a page: nothing in it is HTML."""
    return re.sub(r"<(?=[A-Za-z/!])", r"\\<", text)


# ---- settings ----


def _settings() -> str:
    rows = []
    for key in KEYS.values():
        schema = _schema_of(key.path)
        rows.append((f"`{key.name}`", _form(key, schema), WHO[key.folder]))
    return f"""# Every setting: its form, and whose it may be

Written from the code that reads them. [Settings](../settings.md) says which file wins, and what each key is for.

{_table(("key", "form", "whose files count"), rows)}
"""


def _schema_of(path: Sequence[str]) -> Mapping[str, Any]:
    at: Mapping[str, Any] = SCHEMA
    for name in path:
        at = at.get("properties", {}).get(name, {})
    return at


def _form(key: Key, schema: Mapping[str, Any]) -> str:
    wanted = key.check(object())
    what = wanted or _type_of(schema)
    if what in ("rules", "texts"):
        return f"list of {what}"
    forms = {"value": what, "list": f"list; each is {what}", "members": f"object; each value is {what}"}
    return forms.get(key.shape, f"object of lists; each element is {what}")


# ---- the command line ----


def _command_line() -> str:
    parts = [
        "# Command line\n",
        "```sh\ncellwright [options] [PROMPT …]\n```\n".replace("```sh", "```text"),
    ]
    for group in parser()._action_groups:
        rows = [
            (
                ", ".join(
                    f"`{option} {action.metavar or _values(action)}".rstrip() + "`" for option in action.option_strings
                ),
                _sentence((action.help or "") % {"default": action.default}),
            )
            for action in group._group_actions
            if action.option_strings and action.help != "==SUPPRESS=="
        ]
        if rows:
            parts += [f"## {_sentence(group.title or '')}\n", _table(("option", "what it does"), rows)]
    parts.append("## Exit codes\n")
    parts.append(_table(("code", "when"), [(f"`{code.value}`", meaning) for code, meaning in MEANINGS.items()]))
    parts.append("## Subcommands\n")
    for word in SUBCOMMANDS:
        if word != "plugins":
            parts.append(f"### `cellwright {word}`\n```text\n{_help_of(word)}```\n")
    return "\n".join(parts)


def _names(action: argparse.Action) -> str:
    value = f" {action.metavar or _values(action)}".rstrip()
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _values(action: argparse.Action) -> str:
    return "" if action.nargs == 0 or not action.choices else "|".join(map(str, action.choices))


def _help_of(word: str) -> str:
    called = find_subcommand([word])
    assert called is not None
    text = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            called(["--help"])
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return text.getvalue()


# ---- errors ----


def _errors() -> str:
    rows = [(f"`{name}`", meaning, f"`{exit_code_of(name).value}`") for name, meaning in error_meanings().items()]
    return f"""# Error codes

The same codes everywhere: in cells, in the terminal's JSON, in the server's events, and as `CellwrightError.code` in
Python. The message that comes with a code says what to do; [Troubleshooting](../troubleshooting.md) has more.

{_table(("code", "meaning", "exit code of the terminal"), rows)}
"""


def error_meanings() -> dict[str, str]:
    """What each code means, as the text below it in its class says."""
    classes = [node for node in ast.parse(inspect.getsource(errors)).body if isinstance(node, ast.ClassDef)]
    body = next(node for node in classes if node.name == "ErrorCode").body
    found = {}
    for at, below in zip(body, body[1:] + body[:1], strict=True):
        match at, below:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(meaning))):
                found[name] = meaning
    return found


# ---- the Python API ----


def _python() -> str:
    functions, classes = [], []
    for name in sorted({*cellwright.__all__, "map"} - {"__version__"}, key=str.lower):
        each = getattr(cellwright, name)
        (classes if inspect.isclass(each) else functions).append((name, each))
    parts = [
        "# Python API\n",
        "Everything public is in `cellwright`; the events of a run are in `cellwright.events`.\n",
    ]
    parts.append("## Functions\n")
    parts += [_entry("function", f"cellwright.{name}", each) for name, each in functions]
    parts.append("## Classes\n")
    parts += [_class(name, each) for name, each in classes]
    return "\n".join(parts)


def _class(name: str, each: type) -> str:
    members = [
        _entry("property" if isinstance(member, property) else "method", method, member, indent=True)
        for method, member in vars(each).items()
        if not method.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property))
        and member.__doc__
    ]
    kind = "exception" if issubclass(each, Exception) else "class"
    return f"### {name}\n" + _entry(kind, f"cellwright.{name}", each, inside="\n".join(members))


def _entry(kind: str, name: str, each: Any, *, inside: str = "", indent: bool = False) -> str:
    fence = ":::" if indent else "::::"
    signature = "" if isinstance(each, property) else _signature(each)
    head = "" if kind not in ("function",) else f"### {name.rpartition('.')[2]}\n"
    return f"{head}{fence}{{py:{kind}}} {name}{signature}\n\n{_markdown(inspect.getdoc(each) or '')}\n\n{inside}\n{fence}\n"


class _AsWritten:
    """An annotation or a default that a signature shows as this text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _signature(each: Any) -> str:
    if inspect.isclass(each):
        if issubclass(each, (ToolInput, str)):
            return ""
        if issubclass(each, Struct):
            return _struct_signature(each)
    signature = inspect.signature(each)
    parameters = [
        parameter.replace(annotation=_annotation(parameter.annotation), default=_default(parameter.default))
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    return str(signature.replace(parameters=parameters, return_annotation=_annotation(signature.return_annotation)))


def _struct_signature(each: type[Struct]) -> str:
    """What a record is made of; its annotations may name what only type checkers import."""
    written = {
        name: text for base in reversed(each.__mro__) for name, text in vars(base).get("__annotations__", {}).items()
    }
    names, defaults = each.__struct_fields__, each.__struct_defaults__
    shown = []
    for at, name in enumerate(names, len(defaults) - len(names)):
        default = defaults[at] if at >= 0 else NODEFAULT
        text = "" if default is NODEFAULT else f" = {_default(default)!r}"
        shown.append(f"{name}: {_annotation(written[name])!r}{text}")
    return f"({', '.join(shown)})"


def _annotation(annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _AsWritten(re.sub(r"\b(?:collections\.abc|typing|cellwright(?:\.\w+)+|pathlib)\.(?=\w)", "", text))


def _default(default: Any) -> Any:
    if inspect.isfunction(default) or type(default).__name__ == "Factory":
        return _AsWritten("…")
    plain = default is inspect.Parameter.empty or isinstance(default, (str, int, float, bool, tuple, dict, type(None)))
    return default if plain else _AsWritten("…" if "<" in repr(default) else repr(default))


def _markdown(docstring: str) -> str:
    """A docstring, whose text is Markdown already, with its examples in fences."""
    blocks = []
    for block in docstring.split("\n\n"):
        blocks.append(f"```pycon\n{block}\n```" if block.lstrip().startswith(">>> ") else block)
    return "\n\n".join(blocks)


# ---- the server ----


def _server() -> str:
    def own(traits: type[HasTraits]) -> str:
        found = sorted(traits.class_own_traits(config=True).items())
        rows = [(f"`{name}`", trait.help, _code(repr(trait.default_value))) for name, trait in found]
        return _table(("name", "what it says", "default"), rows)

    return f"""# Options of the Jupyter server

They belong in `jupyter_server_config.py`: `c.CellwrightApp.budget_usd_per_day = 2.0`. The service of a Hub takes those
of the proxy as `c.HubProxy`. [JupyterHub](../jupyterhub.md) and [REST](../server.md) show them in use.

## Runs over HTTP
{own(CellwrightApp)}

## What users may do
{own(PolicyTraits)}

## The key, and what goes through the proxy
{own(ProxyTraits)}
"""
