"""`%config Claude` and `c.Claude`: the defaults of the magic's options, and settings of this user or kernel.

The settings among them (model, mode, rules) are a layer of the settings, above the files and below a cell's
options.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from traitlets import Bool, Enum, Float, Int, List, TraitError, Unicode, validate
from traitlets.config import Configurable

from cellwright.agent.recording.replay_modes import REPLAY_MODES
from cellwright.config.settings.option_table import BY_NAME, COUNT, FORMATS, Option, nested
from cellwright.config.settings.option_table import OPTIONS as TABLE
from cellwright.kernel.magic.option_parser import DEFAULT_FILE

if TYPE_CHECKING:
    from cellwright.config.settings.option_table import How
    from cellwright.config.settings.settings_files import InlineSettings
    from cellwright.kernel.magic.options import MagicOptions


_RUN_DEFAULTS = ("max_turns", "budget")
_OF_A_CELL = (*_RUN_DEFAULTS, "context")
"""Options that hold for a cell that gives none, and are no layer of the settings."""


class _Whole(Int):  # type: ignore[type-arg]  # older traitlets, as of Colab, have no parameters
    """A whole number, also one of numpy's."""

    def validate(self, obj: Any, value: Any) -> Any:
        return super().validate(obj, COUNT.plain(value) if COUNT.fits(value) else value)


def _trait(option: Option) -> Any:
    """Return the trait of an option of the table."""
    kind, help = option.kind, f"{option.help[:1].upper()}{option.help[1:]}."
    match kind.trait:
        case "names" if option.name == "context":
            made: Any = Enum(kind.names, "auto", help=help)
        case "names":
            made = Enum(kind.names, None, allow_none=True, help=help)
        case "texts":
            made = List(Unicode(), help=help)
        case simple:
            made = {"text": Unicode, "whole": _Whole, "number": Float}[simple](None, allow_none=True, help=help)
    return made.tag(config=True)


class Claude(Configurable):
    """Defaults for `%%claude`; an option in the cell goes before them, None leaves it to the settings files."""

    # a trait for each option that may be said here
    vars().update({option.config: _trait(option) for option in TABLE if option.config})

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    session_budget = Float(None, allow_none=True, help="Stop before a session costs more.").tag(config=True)
    notebook_budget = Float(None, allow_none=True, help="Stop before this notebook costs more.").tag(config=True)
    daily_budget = Float(None, allow_none=True, help="Stop before a day costs more, in all kernels.").tag(config=True)
    record = Enum(("auto", "off"), "off", help="Keep each turn in NAME.cellwright.jsonl beside the notebook.").tag(
        config=True
    )
    replay = Enum(REPLAY_MODES, None, allow_none=True, help="Play recorded turns: auto, strict or off.").tag(
        config=True
    )
    recording = Unicode(None, allow_none=True, help="The recording, if not the one beside the notebook.").tag(
        config=True
    )
    quiet = Bool(False, help="Show only the answer.").tag(config=True)
    format = Enum(FORMATS, "text", help="How a run is displayed: text, json or json-lines.").tag(config=True)

    @validate(
        *(option.config for option in TABLE if option.config and option.kind.trait in ("text", "whole", "number"))
    )
    def _as_the_option_reads_it(self, proposal: dict[str, Any]) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        if value is None:
            return value
        try:
            return BY_NAME[name].kind.read(str(value))
        except ValueError as error:
            raise TraitError(f"{name}: {value!r} {error}.") from None

    @validate("add_dirs", "fallback_models", "recording")
    def _texts(self, proposal: dict[str, Any]) -> Any:
        value = proposal["value"]
        if not all(text.strip() for text in ([value] if isinstance(value, str) else value or ())):
            raise TraitError(f"{proposal['trait'].name}: {proposal['value']!r} holds an empty text.")
        return proposal["value"]

    @validate("session_budget", "notebook_budget", "daily_budget")
    def _amount(self, proposal: dict[str, Any]) -> Any:
        from cellwright.config.settings.known_settings import amount_of_money  # loading the extension needs no settings

        if proposal["value"] is not None and (expected := amount_of_money(proposal["value"])):
            raise TraitError(f"{proposal['trait'].name}: {proposal['value']!r} is not {expected}.")
        return proposal["value"]

    @validate("allow", "deny")
    def _rules(self, proposal: dict[str, Any]) -> Any:
        from cellwright.errors import CellwrightError
        from cellwright.permissions.rules.rule import grant_problem, parse_rule  # loading the extension needs no rules

        for text in proposal["value"]:
            try:
                rule = parse_rule(text)
                problem = grant_problem(rule) if proposal["trait"].name == "allow" else None
            except CellwrightError as error:
                problem = error.message
            if problem:
                raise TraitError(problem)
        return proposal["value"]

    def inline_settings(self) -> tuple[InlineSettings, ...]:
        """Return what is set here of the settings, as a layer of them."""
        from cellwright.config.settings.layers import Layer  # not needed before there is a conversation

        of_table = {
            option.setting: getattr(self, option.config)
            for option in TABLE
            if option.config and option.setting and option.name not in _OF_A_CELL
        }
        budgets = {
            "cellwright.sessionBudget": self.session_budget,
            "cellwright.notebookBudget": self.notebook_budget,
            "cellwright.dailyBudget": self.daily_budget,
        }
        said = {name: list(value) if isinstance(value, list) else value for name, value in of_table.items()}
        values = nested({**{name: value for name, value in said.items() if value not in ("", [])}, **budgets})
        if not values:
            return ()
        here = Path.cwd()
        layer = Layer(scope="config", label="c.Claude or %config Claude", root=here, folder=here)
        return ((layer, values),)

    def options(self) -> MagicOptions:
        """The options of a cell that gives none, as far as they are no settings."""
        from cellwright.kernel.magic.options import MagicOptions  # for prompts; loading the extension needs none

        return MagicOptions(
            run={name: value for name in _RUN_DEFAULTS if (value := getattr(self, name)) is not None},
            record=DEFAULT_FILE if self.record == "auto" else None,
            replay=self.replay,
            recording=self.recording,
            context=cast("How", self.context),
            quiet=self.quiet,
            format=self.format,
        )
