"""One run's model, effort and policy, from the settings and its options; and the question of trust before it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from cellwright.agent.agent_setup import USUAL_MODEL_SETTINGS, CompactionSettings, ModelSettings
from cellwright.agent.calls.approval import Allow, CanUseTool, Decision, Deny, ToolUse
from cellwright.agent.calls.tool_results import output_folder
from cellwright.config.settings.settings import Settings, mode_is_allowed, model_is_allowed, nearest_mode, origin_of
from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.config.trust.trust import HOW_TO_TRUST
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode, log_fault
from cellwright.events import Answered, Asked, Emit, EventLog, Preview, Suggestion
from cellwright.model.models import EFFORTS, Thinking, canonical
from cellwright.permissions.modes import check_bypass_allowed, host_facts, parse_mode, stricter
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.rules.rule import Rule, parse_rule, with_rules
from cellwright.permissions.sandboxing import FindAbilities, SandboxAbilities, SandboxRules
from cellwright.sessions.session import Session
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from cellwright.conversation.runs.kinds import TrustCheck

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "claude-opus-5-5"
ALIASES = {
    "default": DEFAULT_MODEL,
    "best": DEFAULT_MODEL,
    "opus": DEFAULT_MODEL,
    "opusplan": "claude-sonnet-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5",
}
"""Claude Code's short names for models, which settings files use."""

OPUS_PLAN = "opusplan"
"""The short name of two: while a session is in plan mode Opus answers, else Sonnet."""

_LONG_CONTEXT = lazy_pattern(r"\[1m\]$", re.IGNORECASE)

PEOPLE = ("widget", "sidebar", "input", "terminal")
"""Whose answer about trust counts: no rule, mode, hook or callback gives it."""


def model_of(options: RunOptions, settings: Settings, environ: Mapping[str, str]) -> str:
    """The model of a run, by its full name. Raises CellwrightError CONFIG_INVALID for one that settings exclude."""
    requested = _requested(options, settings, environ)
    name = full_name(requested or DEFAULT_MODEL, environ)
    if requested is None and not _may_be_default(name, settings, environ):
        names = (*(settings.available_models or ()), *ALIASES) if settings.enforce_available_models else ALIASES
        known = (full_name(each, environ) for each in (*names, *named_models(settings)))
        name = next((each for each in known if _may_be_default(each, settings, environ)), DEFAULT_MODEL)
    check_allowed(name, settings, environ)
    return name


def plan_model_of(options: RunOptions, settings: Settings, environ: Mapping[str, str]) -> str | None:
    """The model that answers while a session is in plan mode, where that is another. Raises as `model_of`."""
    if _short(_requested(options, settings, environ) or "") != OPUS_PLAN:
        return None
    name = full_name("opus", environ)
    check_allowed(name, settings, environ)
    return name


def _requested(options: RunOptions, settings: Settings, environ: Mapping[str, str]) -> str | None:
    asked = options.model if not _is_administrators(settings, "model") else None
    return asked or settings.model or environ.get("ANTHROPIC_MODEL")


def named_models(settings: Settings) -> tuple[str, ...]:
    """The models that settings name, besides those that everybody knows."""
    allowed = (name for name in settings.allowed_models or () if "*" not in name)
    return (*(settings.available_models or ()), *allowed)


def _may_be_default(name: str, settings: Settings, environ: Mapping[str, str]) -> bool:
    return model_is_allowed(name, settings) and (
        not settings.enforce_available_models or _is_usable(name, settings, environ)
    )


def check_allowed(name: str, settings: Settings, environ: Mapping[str, str]) -> None:
    """Raises CellwrightError CONFIG_INVALID for a model, by its full name, that settings exclude."""
    if not model_is_allowed(name, settings):
        allowed = ", ".join(settings.allowed_models or ()) or "none"
        who = origin_of(settings, "cellwright.allowedModels")
        message = f"The model {name} may not be used: {who} allows {allowed}."
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)
    if any(_names(entry, name, environ) for entry in settings.denied_models):
        raise _excluded(name, "`deniedModels` excludes it")
    available = settings.available_models
    is_exempt = name == DEFAULT_MODEL and not settings.enforce_available_models
    if available is not None and not is_exempt and not any(_names(each, name, environ) for each in available):
        raise _excluded(name, f"`availableModels` names {', '.join(available) or 'none but the default'}")


def full_name(name: str, environ: Mapping[str, str]) -> str:
    """The model that `name`, perhaps a short name of Claude Code's, means."""
    short = _LONG_CONTEXT.sub("", name.strip())
    alias = _short(name)
    if alias not in ALIASES:
        return short
    if alias == OPUS_PLAN:
        return full_name("sonnet", environ)
    return environ.get(f"ANTHROPIC_DEFAULT_{alias.upper()}_MODEL") or ALIASES[alias]


def _short(name: str) -> str:
    return _LONG_CONTEXT.sub("", name.strip()).lower()


def _names(entry: str, model: str, environ: Mapping[str, str]) -> bool:
    # `opus` in a list means each model of that line
    return full_name(entry, environ) == model or entry.lower() in model.lower().split("-")


def _excluded(model: str, why: str) -> CellwrightError:
    message = f"The model {model} may not be used: {why} in the settings. `/config` shows which file says so."
    return CellwrightError(ErrorCode.CONFIG_INVALID, message)


def fallbacks_of(options: RunOptions, settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The models that take over where a run's is overloaded or not there: at most three that settings do not exclude."""
    named = settings.fallback_models if options.fallback_models is None else options.fallback_models
    found = dict.fromkeys(full_name(name, environ) for name in named)
    return tuple(name for name in found if _is_usable(name, settings, environ))[:3]


def _is_usable(name: str, settings: Settings, environ: Mapping[str, str]) -> bool:
    try:
        check_allowed(name, settings, environ)
    except CellwrightError:  # a chain goes on with the next
        return False
    return True


USUAL_EFFORT = "high"
"""The effort of most models that are told none."""


def effort_of(options: RunOptions, settings: Settings) -> str | None:
    """Return the effort with which the model thinks in a run; None leaves it to the model."""
    asked = None if _is_administrators(settings, "effortLevel") else options.effort
    wanted = asked or settings.effort
    most = settings.max_effort_level
    if most is None or EFFORTS.index(wanted or USUAL_EFFORT) <= EFFORTS.index(most):
        return wanted
    return most


CHOSEN_IN_FORCE: Mapping[str, Callable[[RunOptions, Settings, Mapping[str, str]], str]] = {
    "model": model_of,
    "effort": lambda options, settings, _environ: effort_of(options, settings) or "the model's own",
    "mode": lambda options, settings, environ: mode_of(options, settings, environ),
}
"""The value that a run would get of each option that a command chooses, by its name in the table; raises as `model_of`."""


def thinking_of(settings: Settings, environ: Mapping[str, str]) -> Thinking:
    """Say what comes of the model's thinking in a run. MAX_THINKING_TOKENS goes before the settings, as in Claude Code."""
    tokens = environ.get("MAX_THINKING_TOKENS", "").strip()
    if tokens == "0" or (not tokens.isdecimal() and not settings.always_thinking):
        return "disabled" if settings.show_thinking else "disabled or omitted"
    return "summarized" if settings.show_thinking else "omitted"


def thinking_budget_of(settings: Settings, environ: Mapping[str, str]) -> int | None:
    """The tokens for which models of 4.5 and before may think; None for no thinking, unless somebody asks for it."""
    tokens = environ.get("MAX_THINKING_TOKENS", "").strip()
    if tokens.isdecimal():
        return int(tokens) or None
    asked = settings.origin("alwaysThinkingEnabled")
    return 16_000 if asked is not None and asked.value is True else None  # tokens, for a model that wants a budget


def model_settings_of(options: RunOptions, settings: Settings, environ: Mapping[str, str]) -> ModelSettings:
    """Return the part of a run's options that its requests have. Raises as `model_of`."""
    return ModelSettings(
        max_tokens=options.max_tokens or settings.max_tokens or USUAL_MODEL_SETTINGS.max_tokens,
        effort=effort_of(options, settings),
        thinking=thinking_of(settings, environ),
        thinking_budget=thinking_budget_of(settings, environ),
        cache_ttl=settings.prompt_cache_ttl,
        plan_model=plan_model_of(options, settings, environ),
        fallback_models=fallbacks_of(options, settings, environ),
    )


def mode_of(options: RunOptions, settings: Settings, environ: Mapping[str, str]) -> str:
    """The mode of a run. Raises CellwrightError for one that is unknown or refused here."""
    mode = settings.default_mode if options.mode is None else parse_mode(options.mode)[0]
    if mode == "bypassPermissions" and settings.bypass_disabled:
        message = "Mode bypassPermissions is switched off by `permissions.disableBypassPermissionsMode`."
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, f"{message} `/config` shows which file says so.")
    if options.mode is not None and not mode_is_allowed(mode, settings):
        allowed = ", ".join(settings.allowed_modes or ())
        who = origin_of(settings, "cellwright.allowedModes")
        message = f"Mode {mode} may not be used: {who} allows {allowed}."
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)
    mode = nearest_mode(stricter(mode, settings.loosest_mode), settings)
    if mode == "bypassPermissions":
        check_bypass_allowed(host_facts(environ))
    return mode


def _is_administrators(settings: Settings, key: str) -> bool:
    origin = settings.origin(key)
    return origin is not None and origin.scope == "managed"


def compaction_settings(settings: Settings, environ: Mapping[str, str]) -> CompactionSettings:
    """When a conversation is summed up, by the settings and by Claude Code's variables, which can only lower it."""
    window, share = settings.auto_compact_window, settings.auto_compact_share
    with contextlib.suppress(ValueError):
        window = (
            int(environ["CLAUDE_CODE_AUTO_COMPACT_WINDOW"])
            if environ.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW")
            else window
        )
    with contextlib.suppress(ValueError):
        percent = float(environ.get("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE") or 100)
        share = min(share, percent / 100) if percent > 0 else share
    off = any(environ.get(name, "0") not in ("", "0", "false") for name in ("DISABLE_AUTO_COMPACT", "DISABLE_COMPACT"))
    return CompactionSettings(
        clear_tool_results=settings.clear_tool_results,
        automatic=settings.auto_compact and not off,
        share=share,
        window=window if window is None or window > 0 else None,
        own_api=settings.compaction == "api",
    )


SMALL_WINDOW = 64_000
"""Tokens: in a smaller window the definitions of all tools take too much."""


def has_small_window(options: RunOptions, settings: Settings, environ: Mapping[str, str]) -> bool:
    """Return whether a model that is not Claude is given a window below `SMALL_WINDOW`, which only the variable can."""
    window = environ.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "")  # looked at first: every prompt asks
    if not window.isdecimal() or int(window) >= SMALL_WINDOW:
        return False
    name = full_name(_requested(options, settings, environ) or DEFAULT_MODEL, environ)
    return not canonical(name).startswith("claude-")


def policy_of(
    options: RunOptions,
    settings: Settings,
    cwd: Path,
    environ: Mapping[str, str],
    means: SandboxAbilities | FindAbilities | None = None,
    notes: Path | None = None,
) -> PermissionPolicy:
    """The policy of a run: the settings', and the rules and the mode of the options.

    `means` is what commands can be confined by, as in `SandboxRules`; `notes` is the folder of Claude's own notes, which it
    may read. Raises `CellwrightError` for a mode that is refused
    here, for a malformed rule, and where settings want a sandbox and there is none.
    """
    sandbox = sandbox_rules(options, settings, cwd, means)
    _check_sandbox(settings, sandbox)
    return PermissionPolicy(
        mode=mode_of(options, settings, environ),
        deny=(*settings.deny, *options.deny),
        ask=settings.ask,
        allow=(*settings.allow, *(() if settings.managed_rules_only else options.allow)),
        roots=(cwd, *settings.additional_directories, *options.add_dirs),
        cwd=cwd,
        # long outputs of commands are read from where Bash keeps them
        readable=(output_folder(), *(() if notes is None else (notes,))),
        block_reads_outside=settings.block_reads_outside,
        block_writes_outside=settings.block_writes_outside,
        # what a plan or a hook leads to is no way around the administrator
        loosest=nearest_mode(settings.loosest_mode, settings),
        sandbox=sandbox,
    )


def sandbox_rules(
    options: RunOptions, settings: Settings, cwd: Path, means: SandboxAbilities | FindAbilities | None
) -> SandboxRules:
    """The bounds of a run's commands: the settings of the sandbox, and what the rules add to them."""
    allow: Sequence[Rule] = (*settings.allow, *(parse_rule(rule) for rule in options.allow))
    if settings.sandbox.managed_hosts_only:
        kept = [origin.value for origin in settings.origins("permissions.allow") if origin.scope == "managed"]
        allow = [rule for rule in allow if not rule.is_about_hosts or rule.text in kept]
    deny = (*settings.deny, *(parse_rule(rule) for rule in options.deny))
    rules = with_rules(settings.sandbox.rules, deny=deny, ask=settings.ask, allow=allow, cwd=str(cwd))
    rules = replace(rules, means=means)
    if settings.sandbox.container.container is None:
        return rules
    from cellwright.sandbox.containers.engine import rules_in_container  # few sessions have one

    return replace(rules, in_container=rules_in_container(rules, settings.sandbox.container.container))


def _check_sandbox(settings: Settings, sandbox: SandboxRules) -> None:
    """Raises CellwrightError CONFIG_INVALID where settings want commands confined or nothing done, and that cannot be."""
    if settings.sandbox.container.problem:
        who = origin_of(settings, "sandbox.container")
        message = f"`sandbox.container` ({who}) cannot be used: {settings.sandbox.container.problem}. Nothing was sent."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    inside = sandbox.in_container
    if inside is not None and inside.container is not None and inside.abilities is None:
        from cellwright.sandbox.containers.engine import why_no_container

        who = origin_of(settings, "sandbox.container")
        message = f"`sandbox.container` ({who}): {why_no_container(inside.container)} Nothing was sent."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    if settings.sandbox.required and sandbox.enabled and sandbox.abilities is None:
        who = origin_of(settings, "sandbox.failIfUnavailable")
        message = (
            f"Commands cannot be confined here, and `sandbox.failIfUnavailable` ({who}) wants nothing to be done without. "
            "Nothing was sent. `/doctor` says what is missing and how to get it."
        )
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)


async def ask_all(
    trust_checks: Sequence[TrustCheck],
    ask_user: CanUseTool,
    session: Session,
    emit: Emit,
    unasked: Callable[[TrustQuestion], None],
) -> bool:
    """Put every open question of `trust_checks` to the user; whether any was answered with yes.

    `unasked` is told of one that reached nobody. Raises CellwrightError PERMISSION_DENIED for a no to a required one.
    """
    any_yes = False
    for each in trust_checks:
        while (question := each.question()) is not None:
            requested, chosen = await ask_about_trust(question, ask_user, session, emit)
            if requested == "nobody":
                unasked(question)
                break
            each.answer(question, yes=requested == "yes", chosen=chosen)
            if requested == "no" and question.required:
                raise CellwrightError(ErrorCode.PERMISSION_DENIED, f"{question.title}? No. Nothing was sent.")
            any_yes = any_yes or requested == "yes"
    return any_yes


async def ask_about_trust(
    question: TrustQuestion, ask_user: CanUseTool, session: Session, emit: Emit, *, name: str = "Trust"
) -> tuple[Literal["yes", "no", "nobody"], str]:
    """Put `question` to the user, as an event like any other question; anything but a person's yes is none.

    With it comes which of the question's further answers it was. `name` stands for what it is about in the events.
    """
    log = EventLog(emit, session.next_seq)
    question_id = f"{session.id}-{name.lower()}-{session.next_seq}"
    preview = Preview(question.title, question.detail, warning=question.warning)
    labels = tuple(Suggestion((), "session", label) for label in (question.yes, *question.also, question.no))
    tool_use = {"type": "tool_use", "id": question_id, "name": name, "input": {}}
    decision = Decision("ask", question.reason, suggestions=labels, firm=True)
    log.emit(Asked(question_id, tool_use, preview, question.reason, labels, "trust"))
    answer: Allow | Deny = Deny("interrupted", "policy")
    try:
        answer = await ask_user(ToolUse(question_id, name, {}, decision, preview, question_id, "trust"))
    except asyncio.CancelledError:
        raise
    except Exception:  # noqa: BLE001  a face that fails must neither make it a yes nor end the run without a word
        log_fault(logger, "the question of trust could not be asked")
    finally:
        behavior: Literal["allow", "deny"] = "allow" if isinstance(answer, Allow) and answer.by in PEOPLE else "deny"
        reason = answer.reason if isinstance(answer, Deny) else ""
        log.emit(Answered(question_id, question_id, behavior, answer.by, reason=reason))
        session.next_seq = log.next_seq
    if answer.by not in PEOPLE:
        return "nobody", ""
    if not isinstance(answer, Allow):
        return "no", ""
    chosen = str((answer.updated_input or {}).get("choice", ""))
    return "yes", chosen if chosen in question.also else ""


def unasked_text(question: TrustQuestion) -> str:
    """Word what the user is told where nobody could be asked."""
    outcome = "Nothing was sent." if question.required else "It continues without."
    of_folder = f" {HOW_TO_TRUST}" if question.about == "folder" else ""
    return (
        f"Nobody can be asked here: {question.title}? {outcome}\n{question.detail}\n"
        f"To answer it, run a prompt here in a notebook cell or with `cellwright` in a terminal.{of_folder}"
    )


def unconfined_text(missing: Mapping[str, str]) -> str:
    """Word what the user is told where the operating system cannot confine commands; `missing` are means with reasons."""
    why = "; ".join(f"{means}: {reason}" for means, reason in missing.items())
    return (
        f"Commands cannot be confined here ({why}); they are judged by reading them alone, so more of them ask. "
        "`/doctor` says how to change that."
    )
