"""`%config Claude` and `c.Claude`: the defaults of the magic's options, and settings of this user or kernel.

The settings among them (model, effort, mode, rules) are a layer of the settings, above the files and below a cell's
options.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from traitlets import Bool, Enum, Float, Int, List, TraitError, Unicode, validate
from traitlets.config import Configurable

from cellwright.agent.recording.replay_modes import REPLAY_MODES
from cellwright.conversation.runs.option_values import FORMATS, ON_DENIED
from cellwright.kernel.magic.option_parser import CONTEXTS, DEFAULT_FILE, OPTIONS
from cellwright.model.models import EFFORTS, PROVIDERS
from cellwright.permissions.modes import LISTED_MODES

if TYPE_CHECKING:
    from cellwright.config.settings.settings_files import InlineSettings
    from cellwright.kernel.magic.options import How, MagicOptions


class Claude(Configurable):
    """Defaults for `%%claude`; an option in the cell goes before them, None leaves it to the settings files."""

    model = Unicode(None, allow_none=True, help="The model.").tag(config=True)
    mode = Enum(LISTED_MODES, None, allow_none=True, help="The permission mode.").tag(config=True)
    allow = List(Unicode(), help="Rules for what runs without asking: Bash(pytest *).").tag(config=True)
    deny = List(Unicode(), help="Rules for what never runs.").tag(config=True)
    max_turns = Int(None, allow_none=True, help="At most this many requests to the model in a run.").tag(config=True)
    budget = Float(None, allow_none=True, help="Stop before a run costs more US dollars.").tag(config=True)
    max_tokens = Int(None, allow_none=True, help="At most this many tokens for one answer.").tag(config=True)
    max_parallel_tools = Int(None, allow_none=True, help="Reading tools that run at once.").tag(config=True)
    tool_timeout = Float(None, allow_none=True, help="Stop every tool call after so many seconds.").tag(config=True)
    on_denied = Enum(ON_DENIED, None, allow_none=True, help="A call that needs permission: ask, skip, error.").tag(
        config=True
    )
    add_dirs = List(Unicode(), help="Folders to work in besides the notebook's.").tag(config=True)
    fallback_models = List(Unicode(), help="Models that take over if the model is unavailable.").tag(config=True)
    agent = Unicode(None, allow_none=True, help="The agent that works itself in new sessions.").tag(config=True)
    session_budget = Float(None, allow_none=True, help="Stop before a session costs more.").tag(config=True)
    notebook_budget = Float(None, allow_none=True, help="Stop before this notebook costs more.").tag(config=True)
    daily_budget = Float(None, allow_none=True, help="Stop before a day costs more, in all kernels.").tag(config=True)
    effort = Enum(EFFORTS, None, allow_none=True, help="How hard the model thinks.").tag(config=True)
    provider = Enum(PROVIDERS, None, allow_none=True, help="How the model is reached: api or claude-code.").tag(
        config=True
    )
    record = Enum(("auto", "off"), "off", help="Keep each turn in NAME.cellwright.jsonl beside the notebook.").tag(
        config=True
    )
    replay = Enum(REPLAY_MODES, None, allow_none=True, help="Play recorded turns: auto, strict or off.").tag(
        config=True
    )
    recording = Unicode(None, allow_none=True, help="The recording, if not the one beside the notebook.").tag(
        config=True
    )
    context = Enum(CONTEXTS, "auto", help="The notebook context sent with a prompt.").tag(config=True)
    quiet = Bool(False, help="Show only the answer.").tag(config=True)
    format = Enum(FORMATS, "text", help="How a run is displayed: text, json or json-lines.").tag(config=True)

    @validate("model", "max_turns", "budget", "max_tokens", "max_parallel_tools", "tool_timeout")
    def _as_the_option_reads_it(self, proposal: dict[str, Any]) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        read = OPTIONS[name.replace("_", "-")].read
        if value is None or read is None:
            return value
        try:
            return read(str(value))
        except ValueError as error:
            raise TraitError(f"{name}: {value!r} {error}.") from None

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

        given = {
            "defaultMode": self.mode,
            "allow": list(self.allow),
            "deny": list(self.deny),
            "additionalDirectories": list(self.add_dirs),
        }
        permissions = {name: value for name, value in given.items() if value}
        values: dict[str, Any] = {
            "model": self.model,
            "effortLevel": self.effort,
            "fallbackModel": list(self.fallback_models),
            "agent": self.agent,
            "permissions": permissions,
        }
        values = {name: value for name, value in values.items() if value}
        own: dict[str, Any] = {
            "sessionBudget": self.session_budget,
            "notebookBudget": self.notebook_budget,
            "dailyBudget": self.daily_budget,
            "provider": self.provider,
            "onDenied": self.on_denied,
            "maxTokens": self.max_tokens,
            "maxParallelTools": self.max_parallel_tools,
            "toolTimeout": self.tool_timeout,
        }
        if own := {name: value for name, value in own.items() if value is not None}:
            values["cellwright"] = own
        if not values:
            return ()
        here = Path.cwd()
        layer = Layer(scope="config", label="c.Claude or %config Claude", root=here, folder=here)
        return ((layer, values),)

    def options(self) -> MagicOptions:
        """The options of a cell that gives none, as far as they are no settings."""
        from cellwright.kernel.magic.options import MagicOptions  # for prompts; loading the extension needs none

        return MagicOptions(
            max_turns=self.max_turns,
            budget=self.budget,
            record=DEFAULT_FILE if self.record == "auto" else None,
            replay=self.replay,
            recording=self.recording,
            context=cast("How", self.context),
            quiet=self.quiet,
            format=self.format,
        )
