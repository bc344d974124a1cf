"""Numbers and names in the documents that the code knows are what the code says; run as a program, this writes them."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "shared"))  # `make written` runs this as a program

from cellwright.commands.registry import COMMANDS
from cellwright.config.settings.known_settings import KEYS
from cellwright.config.settings.settings import Settings
from cellwright.conversation.resolve_options import ALIASES, DEFAULT_MODEL, SMALL_WINDOW
from cellwright.conversation.system_prompt import system_blocks
from cellwright.events import CHARS_PER_TOKEN
from cellwright.features.mcp.feature import FIRST_WAIT_SECONDS
from cellwright.model.retry import RetryPolicy
from cellwright.sessions.transcripts.transcript_file import encode_json
from cellwright.tools.files.read import TOKENS
from cellwright.tools.search.tool_search import with_tool_search
from cellwright.tools.shell.bash import DEFAULT_MS, MAX_MS
from declared_tools import declared

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
BEGIN, END = "<!-- written -->\n", "<!-- /written -->\n"


def limits() -> str:
    """The table of the FAQ: defaults and limits, with what changes each."""
    settings = Settings(project=ROOT)
    retries = RetryPolicy.from_environment({})
    minutes = 60_000
    rows = [
        ("default model", f"`{DEFAULT_MODEL}`", "`model`, `ANTHROPIC_MODEL`"),
        (
            "short names of models",
            ", ".join(f"`{name}`" for name in ALIASES),
            "`ANTHROPIC_DEFAULT_HAIKU_MODEL` and so on",
        ),
        ("retries of a failed request", str(retries.max_retries), "`CELLWRIGHT_MAX_RETRIES`"),
        ("seconds without a word before a retry", f"{retries.stall_seconds:g}", "`CELLWRIGHT_STALL_SECONDS`"),
        (
            "share of the context that is summarised",
            f"{settings.auto_compact_share:.0%}",
            "`cellwright.autoCompactShare`",
        ),
        ("days until a session is deleted", str(settings.cleanup_period_days), "`cleanupPeriodDays`"),
        ("time of a shell command", f"{DEFAULT_MS // minutes} min", "`BASH_DEFAULT_TIMEOUT_MS`"),
        ("… that Claude may ask for", f"{MAX_MS // minutes} min", "`BASH_MAX_TIMEOUT_MS`"),
        ("tokens that `Read` shows at once", f"{TOKENS:,}", "`CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS`"),
        ("seconds the first prompt waits for MCP servers", f"{FIRST_WAIT_SECONDS:g}", "`CELLWRIGHT_MCP_WAIT`"),
        ("slash commands", str(len(COMMANDS)), "[list](../src/cellwright/commands/registry.py)"),
        ("settings", str(len(KEYS)), "[list](../src/cellwright/config/settings/known_settings.py)"),
        (
            "Python packages that are named as needed",
            str(len(PROJECT["project"]["dependencies"])),
            "`cellwright doctor`",
        ),
    ]
    lines = ["| | | changed or listed by |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def rooms() -> str:
    """The table of the architecture: the rooms from the top down, as the import contract has them, in their own words."""
    (layers,) = (
        contract["layers"] for contract in PROJECT["tool"]["importlinter"]["contracts"] if contract["type"] == "layers"
    )
    rows = []
    for layer in layers:
        names = [name.strip().removeprefix("cellwright.") for name in layer.split("|")]
        rows.append(
            f"| {', '.join(f'`{name}`' for name in names)} | {' · '.join(_in_a_line(name) for name in names)} |"
        )
    return "\n".join(["| rooms | what is in them |", "|---|---|", *rows]) + "\n"


def _in_a_line(room: str) -> str:
    """The first sentence of a room's docstring."""
    package = ROOT / "src" / "cellwright" / room.replace(".", "/")
    text = (package / "__init__.py" if package.is_dir() else package.with_suffix(".py")).read_text("utf-8")
    found = re.search(r'"""(.*?)(?:\.\s|\."""|"""|\n\n)', text, re.DOTALL)
    assert found is not None, room
    return " ".join(found[1].split()).replace("|", "\\|")


def before_the_first_word() -> str:
    """The table of costs: the tools that a new session is told of and their tokens, by the address that is asked.

    Tokens are in hundreds, since each word of a tool's description changes them.
    """
    whole = [tool for name, tool in declared().items() if name not in TASK_TOOLS]
    searched = with_tool_search(whole)
    shown = {
        "Anthropic's own": searched,
        "a gateway, a cloud, or Haiku": whole,
        f"another maker's model, window below {SMALL_WINDOW:,}": [tool for tool in whole if tool.everyday],
    }
    lines = ["| address | tools sent | of tools | of the system prompt | together |", "|---|--:|--:|--:|--:|"]
    for address, tools in shown.items():
        told = [tool.to_param() for tool in tools if not tool.defer_loading]
        sizes = [round(len(encode_json(part)) / CHARS_PER_TOKEN, -2) for part in (told, system_blocks(tools))]
        cells = [str(len(told)), *(f"{size:,.0f}" for size in (*sizes, sum(sizes)))]
        lines.append(f"| {address} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def installation() -> str:
    """The table of the FAQ: what an installation brings, as `make sizes` has measured it."""
    measured = json.loads((ROOT / "docs" / "installation.json").read_text("utf-8"))
    alone, beyond = measured["packages"], measured["packages_beyond_jupyterlab"]
    rows = [
        ("packages that come with it", str(len(alone)), str(len(beyond))),
        ("room on the disk", f"{measured['mib']} MiB", f"{measured['mib_beyond_jupyterlab']} MiB"),
    ]
    names = {"wheel": "wheel", "sdist": "sdist", "labextension": "the panel", "widget": "the answer in a cell"}
    sizes = ", ".join(f"{what} {measured[f'{name}_bytes'] / 1e6:.1f} MB" for name, what in names.items())
    lines = [
        *("| | in an empty environment | beside JupyterLab |", "|---|--:|--:|"),
        *(f"| {' | '.join(row)} |" for row in rows),
        *(
            "",
            f"Our own files: {sizes}. Packages that JupyterLab does not need: {', '.join(f'`{name}`' for name in beyond)}.",
        ),
    ]
    return "\n".join(lines) + "\n"


TASK_TOOLS = ("TaskCreate", "TaskGet", "TaskList", "TaskUpdate")
"""In the place of TodoWrite in some sessions."""

Writer = Callable[[], str]
PAGES: Mapping[str, Sequence[Writer]] = {
    "faq": (installation, limits),
    "architecture": (rooms,),
    "costs": (before_the_first_word,),
}
"""What writes the blocks of a page, in their order."""


def written(page: str) -> str:
    """The page with its blocks as the code says them now."""
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    before, *blocks = text.split(BEGIN)
    assert len(blocks) == len(PAGES[page]), f"docs/{page}.md has {len(blocks)} of {BEGIN.strip()}"
    for write, block in zip(PAGES[page], blocks, strict=True):
        _, end, after = block.partition(END)
        assert end, f"docs/{page}.md lacks {END.strip()}"
        before += f"{BEGIN}{write()}{END}{after}"
    return before


def test_numbers_that_the_code_knows_are_its_own() -> None:
    for page in PAGES:
        assert (ROOT / "docs" / f"{page}.md").read_text("utf-8") == written(page), f"docs/{page}.md: run `make written`"


if __name__ == "__main__":
    for page in PAGES:
        (ROOT / "docs" / f"{page}.md").write_text(written(page), "utf-8")
