"""`/model`, `/mode`, `/effort` and `/output-style`: what there is, what is in force, and another one chosen."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cellwright.commands.command import CommandCall, CommandPage, Row, Section, SlashCommand
from cellwright.commands.usage import usd
from cellwright.config.settings.settings import origin_of
from cellwright.conversation.resolve_options import (
    ALIASES,
    OPUS_PLAN,
    check_allowed,
    effort_of,
    full_name,
    mode_of,
    model_of,
    named_models,
    plan_model_of,
)
from cellwright.conversation.runs.run import leave_other_modes
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.model.models import EFFORTS, accepted_effort, canonical, limits
from cellwright.model.pricing import PRICES_DATE, price_of
from cellwright.permissions.modes import LISTED_MODES, MODE_LABELS, mode_name, parse_mode
from cellwright.text import dollars
from cellwright.tools.paths import shown_path

IN_FORCE = "current"
RESET = "default"
"""The word for what the settings say, in place of a choice."""


def model_page(call: CommandCall) -> CommandPage:
    """Show the models with their prices, or go on with another one."""
    if not call.text:
        return CommandPage([_models(call)])
    conversation, name = call.conversation, call.text
    before = _model(call)
    _refuse_administrators(conversation, "model")
    if name.lower() == RESET:
        # what the command line said no longer counts, either
        now = model_of(RunOptions(), conversation.in_force.settings, conversation.in_force.environment)
        choose(conversation, model=None)
    else:
        now = _named_model(conversation, name)
        choose(conversation, model=name)
    text = f"{now} answers from the next prompt."
    if name.lower() == OPUS_PLAN:
        text = f"{full_name('opus', conversation.in_force.environment)} answers in plan mode, {now} else."
    if now != before:
        text += f" {_switching(conversation, now)}"
    return CommandPage([Section("Model", text=text)])


def _named_model(conversation: Conversation, name: str) -> str:
    settings, environ = conversation.in_force.settings, conversation.in_force.environment
    now = full_name(name, environ)
    known = canonical(now).startswith("claude-") or name in named_models(settings) or now != name
    if not known and not environ.get("ANTHROPIC_BASE_URL"):
        message = (
            f"Model {name!r} was not found. /model shows the models; a full name such as claude-sonnet-5-5 works too."
        )
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    check_allowed(now, settings, environ)
    if name.lower() == OPUS_PLAN:
        check_allowed(full_name("opus", environ), settings, environ)
    return now


def _switching(conversation: Conversation, model: str) -> str:
    """Tell what it costs that another model reads the conversation."""
    session = conversation.sessions.current
    if not session.encoded or not session.context_tokens:
        return "Nothing has been said yet, so nothing has to be read again."
    tokens = session.context_tokens
    price = price_of(model, tokens)
    cost = "its price is not known" if price is None else f"about {usd(tokens * price.cache_write_5m / 1e6)}"
    size = limits(model)
    text = (
        f"A cache belongs to one model: with the next prompt it reads the {tokens:,} tokens of this conversation anew "
        f"and writes them to its cache ({cost}). /clear begins without them."
    )
    if size.known and tokens > size.context_window:
        text += f" They do not fit its window of {size.context_window:,} tokens."
    return text


def _models(call: CommandCall) -> Section:
    settings, environ = call.conversation.in_force.settings, call.conversation.in_force.environment
    now = _model(call)
    try:
        planner = plan_model_of(call.options, settings, environ)
    except CellwrightError:
        planner = None
    short: dict[str, list[str]] = {now: []} if now else {}
    for alias in (*ALIASES, *named_models(settings)):
        name = full_name(alias, environ)
        if alias not in (RESET, "best", OPUS_PLAN) and _is_allowed(call.conversation, name):
            short.setdefault(name, []).extend([alias] if alias != name else [])
    rows: list[Row] = [("model", "", "short", "input", "output", "cached", "context")]
    for name, aliases in short.items():
        price, size = price_of(name), limits(name)
        prices = (
            ("?", "?", "?")
            if price is None
            else (dollars(price.input), dollars(price.output), dollars(price.cache_read))
        )
        window, tokens = "?", size.context_window
        if size.known:  # as it fits into a narrow panel, where the end of a longer one would be cut off
            window = f"{tokens / 1_000_000:g}M" if tokens >= 1_000_000 else f"{tokens / 1_000:g}k"
        state = IN_FORCE if name == now else "in plan mode" if name == planner else ""
        rows.append((name, state, ", ".join(dict.fromkeys(aliases)), *prices, window))
    text = (
        f"Prices are by Anthropic's list of {PRICES_DATE}; cached: read from the cache. "
        f"/model NAME switches; {OPUS_PLAN} is Opus in plan mode and Sonnet otherwise; /model {RESET} is "
        "what the settings say."
    )
    if not now:
        text = f"The settings allow no model that is chosen now. {text}"
    return Section("Models, prices per million tokens", rows, text)


def _model(call: CommandCall) -> str:
    """The model of the next prompt; "" where there can be none."""
    try:
        return model_of(call.options, call.conversation.in_force.settings, call.conversation.in_force.environment)
    except CellwrightError:
        return ""


def _is_allowed(conversation: Conversation, name: str) -> bool:
    try:
        check_allowed(name, conversation.in_force.settings, conversation.in_force.environment)
    except CellwrightError:
        return False
    return True


def mode_page(call: CommandCall) -> CommandPage:
    """Show the permission modes, or go on in another one."""
    conversation = call.conversation
    settings, environ = conversation.in_force.settings, conversation.in_force.environment
    if not call.text:
        now = conversation.sessions.current.mode or mode_of(call.options, settings, environ)
        rows: list[Row] = [("mode", "", "what it does")]
        rows += [(mode_name(mode), IN_FORCE if mode == now else "", MODE_LABELS[mode][1]) for mode in LISTED_MODES]
        return CommandPage([Section("Permission modes", rows, "/mode NAME switches.")])
    typed = call.text.lower()
    names = ((each, (each, MODE_LABELS[each][0], mode_name(each))) for each in LISTED_MODES)
    named = (each for each, said in names if typed in map(str.lower, said))
    mode, remark = parse_mode(next(named, call.text))
    if (allowed := mode_of(RunOptions(mode=mode), settings, environ)) != mode:
        raise CellwrightError(
            ErrorCode.PERMISSION_DENIED,
            f"The settings allow no mode as loose as {mode_name(mode)}; the loosest is {mode_name(allowed)}.",
        )
    choose(conversation, mode=mode)
    leave_other_modes(conversation.sessions.current, conversation.runs, mode)
    text = f"{MODE_LABELS[mode][1]}. It applies until you choose another one. {remark}".strip()
    return CommandPage([Section(f"Mode: {MODE_LABELS[mode][0]}", text=text)])


def plan_page(call: CommandCall) -> CommandPage:
    """Go on in plan mode."""
    return mode_page(replace(call, text="plan"))


def effort_page(call: CommandCall) -> CommandPage:
    """Show how hard the model thinks, or have it think harder or less."""
    conversation = call.conversation
    settings = conversation.in_force.settings
    now = effort_of(call.options, settings) or RESET
    if not call.text:
        rows: list[Row] = [("effort", ""), *((each, IN_FORCE if each == now else "") for each in (RESET, *EFFORTS))]
        return CommandPage([Section("Effort", rows, f"How hard the model thinks; {RESET} leaves it to the model.")])
    level = call.text.lower()
    if level not in (RESET, *EFFORTS):
        message = f"Unknown effort {call.text!r}. Choose one of {', '.join((RESET, *EFFORTS))}."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    _refuse_administrators(conversation, "effortLevel")
    in_force = conversation.in_force
    model = _model(call) if level == RESET else model_of(call.options, in_force.settings, in_force.environment)
    if level != RESET and not limits(model).efforts:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{model} does not take an effort.")
    choose(conversation, effort=None if level == RESET else level)
    text = "It holds from the next prompt on. Other thinking restarts the cache of the conversation's messages."
    if level not in (RESET, lower := accepted_effort(model, level)):
        text = f"{model} does not have it and thinks with {lower}. {text}"
    return CommandPage([Section(f"Effort {level}", text=text)])


def output_style_page(call: CommandCall) -> CommandPage:
    """Show the output styles, or choose another one."""
    conversation = call.conversation
    styles = conversation.features.styles.all()
    if not call.text:
        waiting = [item.text for item in conversation.in_force.trust.waiting if item.text.startswith("output styles")]
        rows: list[Row] = [("what", "why"), *((each, "waits until you trust the folder") for each in waiting)]
        return CommandPage([_styles(call), *([Section("Not there yet", rows)] if waiting else [])])
    if call.text.lower() not in styles:
        known = ", ".join(style.name for style in styles.values())
        message = f"Output style {call.text!r} was not found; the styles are {known}."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    style = styles[call.text.lower()]
    _refuse_administrators(conversation, "outputStyle")
    choose(conversation, output_style=style.name)
    when = (
        "This session keeps the system prompt it began with: /clear begins one in this style."
        if conversation.sessions.current.has_begun
        else "It holds from the first prompt on."
    )
    text = f'{style.description}.\n{when} `"outputStyle": "{style.name}"` in the settings makes it your default.'
    return CommandPage([Section(f"Output style {style.name}", text=text)])


def _styles(call: CommandCall) -> Section:
    conversation = call.conversation
    now, problem = conversation.features.styles.chosen()
    rows: list[Row] = [("style", "", "what it is", "where from")]
    for style in conversation.features.styles.all().values():
        rows.append(
            (
                style.name,
                IN_FORCE if style.name == now.name else "",
                style.description,
                "comes with Cellwright" if style.scope == "built-in" else shown_path(conversation.cwd, style.file),
            )
        )
    text = f"/output-style NAME chooses another one; it holds for sessions that begin then. {problem}".strip()
    return Section("Output styles", rows, text)


def _refuse_administrators(conversation: Conversation, key: str) -> None:
    """Raises `CellwrightError` PERMISSION_DENIED where the administrator has decided."""
    settings = conversation.in_force.settings
    origin = settings.origin(key)
    if origin is not None and origin.scope == "managed":
        message = f"{origin_of(settings, key)} sets {key} to {origin.value}; it cannot be changed here."
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)


def choose(conversation: Conversation, **chosen: Any) -> None:
    """Have this hold for the prompts to come, in all faces of the conversation."""
    with conversation.in_force.users_change():
        for name, value in chosen.items():
            conversation.choices.set(name, value)
    conversation.in_force.refresh(session_has_begun=conversation.sessions.current.has_begun)
    conversation.observers.session_changed(conversation.sessions.current)


CHOOSING = {
    "model": SlashCommand(model_page, "the models with their prices; with a name, switch to that one", "[NAME]"),
    "mode": SlashCommand(mode_page, "the permission modes; with a name, switch to that one", "[NAME]"),
    "plan": SlashCommand(plan_page, "switch to plan mode: Claude looks and proposes, but changes nothing"),
    "effort": SlashCommand(effort_page, "how hard the model thinks; with a level, that hard", "[LEVEL]"),
    "output-style": SlashCommand(output_style_page, "the output styles; with a name, switch to that one", "[NAME]"),
}
"""The commands by their names, in the order of `/help`."""
