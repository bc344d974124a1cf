"""Files that repeat the table of options are what the table says; run as a program, this writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from cellwright.config.settings.option_table import OPTIONS, Option, Surface
from cellwright.python_api.ask_options import AGENT_ROWS, SESSION

ROOT = Path(__file__).parents[3]

TYPES = ROOT / "src/cellwright/python_api/ask_option_types.py"
PAGE = ROOT / "docs/settings.md"
FIELDS = ROOT / "labextension/src/composer/options/written_options.ts"

COLUMNS: Mapping[str, Surface] = {
    "cell": "cell",
    "terminal": "terminal",
    "Python": "python",
    "panel, server": "panel",
    "`%config Claude`": "config",
    "settings": "setting",
}


def types(_now: str) -> str:
    """The module with the types of the arguments of `ask`, `stream`, `Agent` and `map`."""

    def fields(options: Iterable[Option]) -> str:
        return "\n".join(f"    {option.name}: {option.kind.annotation}" for option in options)

    return f'''"""The arguments of `ask`, `stream`, `Agent` and `map` for type checkers.

Written by `make written` from the table of options (`config/settings/option_table.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from cellwright.agent.calls.permission_callback import PermissionCallback
from cellwright.agent.tool import Tool
from cellwright.config.settings.option_table import OnDenied
from cellwright.model.models import ProviderName
from cellwright.python_api.ask_options import SharedSession
from cellwright.sessions.session import Session

if TYPE_CHECKING:
    from cellwright.agent.hooks.callbacks import HookCallbacks


class PromptOptions(TypedDict, total=False):
    """The options that each of many prompts may have as well."""

{fields(option for option in AGENT_ROWS if option.in_map)}


class AgentOptions(PromptOptions, total=False):
    """The options of a prompt to an agent, besides the prompt."""

{fields(option for option in AGENT_ROWS if not option.in_map)}


class AskOptions(AgentOptions, total=False):
    """The options of `ask` and `stream`, besides the prompt."""

{fields((SESSION,))}
'''


def page(now: str) -> str:
    """The page of the settings with the table of options, and the reasons for its gaps."""
    gaps = list(dict.fromkeys(option.gap for option in OPTIONS if option.gap))

    def name(option: Option, surface: Surface) -> str:
        said: str = getattr(option, surface)
        if not said:
            return f"({gaps.index(option.gap) + 1})"
        return f"`--{said}`" if surface in ("cell", "terminal") else f"`{said}`"

    rows = [
        f"| {option.title} | {' | '.join(name(option, surface) for surface in COLUMNS.values())} |"
        for option in OPTIONS
    ]
    table = [f"| option | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|", *rows, ""]
    reasons = [f"{number}. {gap}" for number, gap in enumerate(gaps, 1)]
    written = "\n".join((*table, *reasons))
    start = now.index("| option | cell |")
    return now[:start] + re.sub(
        r"\A\| option \| cell .*\n(?:\|.*\n)*\n(?:\d+\. .*(?:\n|\Z))*", lambda _: f"{written}\n", now[start:]
    )


def panel_fields(_now: str) -> str:
    """The module with the options that the panel sends with a prompt, and the values of those that have names."""
    rows = [(option.panel, names(option)) for option in OPTIONS if option.panel and not option.chosen]
    union = " | ".join(json.dumps(name) for name, _ in rows)
    values = "\n".join(f"  {name}: {json.dumps(given)}," for name, given in rows if given)
    return f"""/** The options that a prompt may bring along. Written by `make written` from the table in Python. */

export type OptionName = {union};

/** The values of the options that have some of their own. */
export const OPTION_VALUES = {{
{values}
}} as const;
"""


def names(option: Option) -> list[str]:
    return [*option.kind.names]


FILES: Mapping[Path, Callable[[str], str]] = {TYPES: types, PAGE: page, FIELDS: panel_fields}


def test_what_repeats_the_table_of_options_is_written_from_it() -> None:
    for file, write in FILES.items():
        now = file.read_text("utf-8")
        assert now == write(now), f"{file.name}: run `make written`"


if __name__ == "__main__":
    for file, write in FILES.items():
        now = file.read_text("utf-8") if file.exists() else ""
        file.write_text(write(now), "utf-8")
