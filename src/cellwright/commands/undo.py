"""`/undo`, `/redo`, `/rewind`: turns taken back in files, cells, variables and the conversation, after a preview."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.checkpoints.journal import CheckpointTurn, History, Journal, bounded, names_of
from cellwright.checkpoints.undo import FileUndo, Undo, UndoPlan, What
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.conversation.kernel_copies import VariablesPlan
from cellwright.conversation.resolve_options import ask_about_trust
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Changed, change_words, ran_code
from cellwright.features.branches import NO_COPY
from cellwright.features.conversation import Conversation
from cellwright.sessions.session import Session
from cellwright.text import counted, visible
from cellwright.tools.paths import shown_path

WOULD_BE = {"created": "will be created again", "deleted": "will be deleted", "changed": "will be restored"}
"""The verb for what a plan does, by what it makes of a file."""


def in_figures(changed: Changed) -> str:
    """`+3 −1`; empty where lines were not counted."""
    return "" if changed.added is None else f"+{changed.added} −{changed.removed}"


NO_VARIABLES = VariablesPlan()


def preview_text(plan: UndoPlan, cwd: Path, variables: VariablesPlan = NO_VARIABLES) -> str:
    """Describe what a plan would do, a line for each file, cell and variable; then what it would not do, and why."""
    lines = [
        " · ".join(filter(None, (f"{changed.where} {WOULD_BE[changed.kind]}", in_figures(changed))))
        for changed in changes_of_plan(plan, cwd)
    ]
    lines += bounded([change.text for change in variables.coming_back])
    if not lines and plan.code:
        lines = ["No file or cell changes."]
    if plan.as_after is not None:
        verb = "come back into" if plan.redo_of is not None else "go out of"
        lines.append(f"The messages of {names_of(plan.turns)} {verb} the conversation.")
    if left := left_out(plan, cwd, variables):
        lines += ["", "Left as they are:", *bounded([f"  {name}: {why}" for name, why in left])]
    if variables.note:
        lines += ["", variables.note]
    if plan.effects:
        lines += ["", f"{NOT_UNDONE}:", *bounded([f"  {turn}: {effect}" for turn, effect in effect_rows(plan.effects)])]
        if variables.changes:
            lines += ["", STAYS]
    return "\n".join(lines)


def changes_of_plan(plan: UndoPlan, cwd: Path) -> list[Changed]:
    """List what a plan changes, for people."""
    return [file.shown(cwd) for file in plan.file_changes] + [
        cell.shown(cwd, plan.own_notebook) for cell in plan.cell_changes
    ]


def effect_rows(effects: Sequence[tuple[CheckpointTurn, str]]) -> list[tuple[str, str]]:
    """List effects that cannot be taken back, each with the name of its turn."""
    return [(names_of([turn]), effect) for turn, effect in effects]


def left_out(plan: UndoPlan, cwd: Path, variables: VariablesPlan = NO_VARIABLES) -> list[tuple[str, str]]:
    """List what a plan leaves as it is, with the reasons."""
    files_and_cells = [
        (
            shown_path(cwd, undo.path) if isinstance(undo, FileUndo) else undo.shown(cwd, plan.own_notebook).where,
            undo.refused,
        )
        for undo in plan.refused
    ]
    return files_and_cells + [(f"`{change.name}`", change.refused) for change in variables.left]


async def plan_variables(
    conversation: Conversation, plan: UndoPlan, session: Session, *, force: bool = False
) -> VariablesPlan:
    """Plan what becomes of the variables that the turns of `plan` changed."""
    variables = conversation.features.variables
    if variables is None or plan.redo_of is not None or not plan.code:
        return NO_VARIABLES
    found = await variables.plan([(session.id, turn.number) for turn in plan.turns], force=force)
    if found is not None:
        return found
    return VariablesPlan(note=NO_COPY) if any(ran_code(turn.effects) for turn in plan.turns) else NO_VARIABLES


async def _apply_variables(conversation: Conversation, plan: VariablesPlan) -> list[str]:
    variables = conversation.features.variables
    return await variables.apply(plan) if variables is not None and plan.coming_back else []


def _in_words(turns: Sequence[CheckpointTurn]) -> str:
    """Name turns for the user who is asked about them: one by its prompt, since its number says less."""
    return f"“{turns[0].prompt}”" if len(turns) == 1 and turns[0].prompt else names_of(turns)


NOT_UNDONE = "Cannot be undone"
STAYS = "What commands and code in the kernel did stays as it is, but for the files, cells and variables above."

UNDO = "[N] [code|conversation|both] [yes] [force]"
REWIND = "[TURN] [code|conversation|both] [yes] [force]"
REDO = "[yes] [force]"

OVERWRITE = "Also undo later changes"
CONVERSATION = "Undo, and remove it from the conversation"

_DISABLED = (
    "Undo is off: fileCheckpointingEnabled is false in the settings. "
    "/config shows where. Set it to true to undo later turns."
)

_WAS = {"created": "created again", "deleted": "deleted", "changed": "restored"}

MakePlan = Callable[[What, bool], Awaitable[UndoPlan]]
"""Plans it for code, conversation or both; with True also what somebody else has changed since."""


class UndoArguments(Struct, frozen=True):
    """The arguments of the command: a number (0: none), what is taken back ("": not said), whether to ask."""

    number: int = 0
    what: What | Literal[""] = ""
    yes: bool = False
    force: bool = False


def parse(text: str, usage: str) -> UndoArguments:
    """Read what follows a command. Raises CellwrightError INVALID_PARAMETERS, with the `usage`."""
    words = UndoArguments()
    for word in text.lower().split():
        match word:
            case "code" | "conversation" | "both" if "code" in usage:
                words = replace(words, what=word)
            case "yes":
                words = replace(words, yes=True)
            case "force":
                words = replace(words, force=True)
            case _ if word.isascii() and word.isdigit() and 0 < int(word) < 1_000_000 and usage != REDO:
                words = replace(words, number=int(word))
            case _:
                raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{word!r} is not understood. Usage: {usage}.")
    return words


async def undo_page(call: CommandCall) -> CommandPage:
    """Take back the last turn that changed something, or the last N."""
    words, taking = parse(call.text, UNDO), _undo(call)
    code_only = words.what in ("", "code")
    turns = taking.journal.history.newest(words.number or 1, code_only=code_only, left=words.force)
    last = _turn_of_variables(call.conversation, taking) if code_only else None
    if last is not None and last not in turns and (not turns or last.number > turns[0].number):
        feature = call.conversation.features.variables
        found = None if feature is None else await feature.plan([(taking.session.id, last.number)], force=False)
        variables = NO_VARIABLES if found is None else found
        if variables.coming_back or variables.conflicts:  # its code did not only look
            turns = [last, *turns][: words.number or 1]
    if not turns:
        return _nothing_to_undo("There is no turn to undo.", taking.journal.history, call.conversation)
    return await _apply(call, taking, words, turns)


async def rewind_page(call: CommandCall) -> CommandPage:
    """The list of turns, or everything from one turn on taken back."""
    words, taking = parse(call.text, REWIND), _undo(call)
    history = taking.journal.history
    if not words.number:
        return CommandPage([_turns(history)])
    what: What = words.what or "both"
    turns = _from_turn(history, words.number)
    first = turns[-1]
    last = _turn_of_variables(call.conversation, taking)
    code = what != "conversation" and (last in turns or any(turn.to_undo(left=words.force) for turn in turns))
    if not code and (what == "code" or not _is_in(first)):
        text = f"Nothing of turn {words.number} and those after it is left to undo."
        return _nothing_to_undo(text, history, call.conversation)
    return await _apply(call, taking, replace(words, what=what), turns)


async def rewind_turns(
    conversation: Conversation, number: int, what: What, *, force: bool = False
) -> tuple[list[str], list[str]]:
    """The turn `number` and all after it taken back, for a program: what was changed back, and what was left, and why.

    Raises CellwrightError.
    """
    taking = _enabled_undo(conversation)
    plan = await taking.plan(_from_turn(taking.journal.history, number), what, force=force)
    variables = await plan_variables(conversation, plan, taking.session, force=force)
    left = [f"{name}: {why}" for name, why in left_out(plan, taking.cwd, variables)]
    left += [variables.note] if variables.note else []
    if not (plan.does_something or variables.coming_back):
        return [], left
    conversation.runs.refuse_while_running()
    changed = [each.where for each in changes_of_plan(plan, taking.cwd)]
    changed += [change.name for change in variables.coming_back]
    failed = await taking.apply(plan)
    failed += await _apply_variables(conversation, variables)
    if plan.as_after is not None:
        conversation.observers.session_changed(taking.session)
    return changed, [*left, *failed]


def _from_turn(history: History, number: int) -> list[CheckpointTurn]:
    """The turns from this one on, the newest first. Raises CellwrightError where it is not there."""
    if history.turn(number) is None:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"Turn {number} was not found. /rewind lists the turns.")
    return [turn for turn in reversed(history.turns) if turn.number >= number]


def _turn_of_variables(conversation: Conversation, taking: Undo) -> CheckpointTurn | None:
    """The turn whose variables can be brought back, if it is one of the session."""
    variables = conversation.features.variables
    if variables is None or variables.turn is None or variables.turn[0] != taking.session.id:
        return None
    return taking.journal.history.turn(variables.turn[1])


async def undo_turn(conversation: Conversation, number: int, *, preview: bool, force: bool = False) -> dict[str, Any]:
    """One turn's files, cells and variables taken back, for a button; with `preview` only what that would do.

    Gives `title`, `text` (lines for people), `does_something`, `conflicts`; in `failed` what could not be done.
    Raises CellwrightError.
    """
    taking = taking_back(conversation)
    turn = taking.journal.history.turn(number)
    last = _turn_of_variables(conversation, taking)
    if turn is None or not (turn.to_undo(left=True) or turn is last):
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"Turn {number} cannot be undone: it was not found.")
    plan = await taking.plan([turn], "code", force=force)
    variables = await plan_variables(conversation, plan, taking.session, force=force)
    does_something = bool(variables.coming_back) or (plan.does_something and turn.to_undo(left=True))
    name = _in_words(plan.turns)
    shown = {
        "title": f"Undo {name}?",
        "text": visible(preview_text(plan, taking.cwd, variables)),
        "does_something": does_something,
        "conflicts": plan.conflicts or variables.conflicts,
        "failed": [],
    }
    if preview or not does_something:
        return shown
    failed = await taking.apply(plan)
    failed += await _apply_variables(conversation, variables)
    text = "\n".join([str(shown["text"]), *map(visible, failed)])
    return {**shown, "title": f"Undone: {name}", "text": text, "failed": failed}


def turns_to_undo(conversation: Conversation) -> list[int]:
    """The numbers of the session's turns that are over and changed something which was not taken back."""
    checkpoints = conversation.checkpoints
    if not checkpoints.enabled():
        return []
    going_on = checkpoints.turn.turn if checkpoints.turn is not None else None
    session = checkpoints.session_of(conversation.sessions.current)
    variables = conversation.features.variables
    last = None if variables is None else variables.turn
    return [
        turn.number
        for turn in _journal(conversation, session).history.turns
        if turn is not going_on and (turn.to_undo() or (session.id, turn.number) == last)
    ]


async def redo_page(call: CommandCall) -> CommandPage:
    """Redo what the last undo took back."""
    words, taking = parse(call.text, REDO), _undo(call)
    undo = taking.journal.history.to_redo()
    if undo is None:
        return _nothing_to_undo(
            "There is nothing to redo. An undo can be redone until the next turn begins.", taking.journal.history, None
        )

    async def plan(_what: What, force: bool) -> UndoPlan:
        return await taking.plan_redo(undo, force=force)

    return await _confirm_and_apply(call, taking, words, plan, "Redo")


def _is_in(turn: CheckpointTurn) -> bool:
    return not turn.conversation_undone


def _undo(call: CommandCall) -> Undo:
    return _enabled_undo(call.conversation)


def _enabled_undo(conversation: Conversation) -> Undo:
    if not conversation.checkpoints.enabled():
        raise CellwrightError(ErrorCode.CONFIG_INVALID, _DISABLED)
    return taking_back(conversation)


def taking_back(conversation: Conversation) -> Undo:
    """The turns of `conversation`, to be taken back. Raises `CellwrightError` while a run goes on."""
    conversation.runs.refuse_while_running()
    session = conversation.checkpoints.session_of(conversation.sessions.current)
    return Undo(
        journal=_journal(conversation, session),
        session=session,
        file_state=conversation.tools.file_state,
        notebooks=conversation.tools.open_notebooks,
        cwd=conversation.cwd,
    )


def _journal(conversation: Conversation, session: Session) -> Journal:
    try:
        return conversation.checkpoints.journal(session)
    except OSError as error:
        message = f"The undo log of this session cannot be read: {error}."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error


async def _apply(call: CommandCall, taking: Undo, words: UndoArguments, turns: list[CheckpointTurn]) -> CommandPage:
    async def plan(what: What, force: bool) -> UndoPlan:
        return await taking.plan(turns, what, force=force)

    return await _confirm_and_apply(call, taking, words, plan, "Undo")


async def _confirm_and_apply(
    call: CommandCall, taking: Undo, words: UndoArguments, make_plan: MakePlan, verb: str
) -> CommandPage:
    """Show what would be done, ask unless that was said, do it."""
    what: What = words.what or "code"
    plan = await make_plan(what, words.force)
    variables = await plan_variables(call.conversation, plan, taking.session, force=words.force)
    if not (plan.does_something or variables.coming_back):
        return CommandPage([Section("Nothing was changed"), *_rest(plan, taking, variables)])
    if not words.yes:
        answer, chosen = await _ask(call, taking, words, plan, variables, verb)
        if answer == "no":
            return CommandPage([Section("Nothing was changed")])
        if answer == "nobody" and not words.force:
            return _unconfirmed(plan, taking, variables, verb)
        if chosen:
            force = words.force or chosen == OVERWRITE
            plan = await make_plan("both" if chosen == CONVERSATION else what, force)
            variables = await plan_variables(call.conversation, plan, taking.session, force=force)
    call.conversation.runs.refuse_while_running()
    rows = _rows(changes_of_plan(plan, taking.cwd), _WAS)
    failed = await taking.apply(plan)
    not_restored = await _apply_variables(call.conversation, variables)
    failed += not_restored
    if variables.coming_back and not not_restored:
        rows += [(change.text, "", "") for change in variables.coming_back]
    if plan.as_after is not None:
        call.conversation.observers.session_changed(taking.session)
    return _outcome_page(plan, rows, failed, taking, variables)


async def _ask(
    call: CommandCall, taking: Undo, words: UndoArguments, plan: UndoPlan, variables: VariablesPlan, verb: str
) -> tuple[Literal["yes", "no", "nobody"], str]:
    if call.ask_user is None:
        return "nobody", ""
    also = [OVERWRITE] if plan.conflicts or variables.conflicts else []
    if not words.what and plan.redo_of is None:
        # the turns from the oldest of the plan on: a conversation ends somewhere, it has no holes
        undone = {turn.number for turn in plan.turns}
        later = [turn for turn in taking.journal.history.turns if turn.number >= min(undone)]
        has_hole = not all(turn.number in undone or turn.conversation_undone for turn in later)
        if has_hole or all(_is_in(turn) for turn in later):
            also.insert(0, CONVERSATION)
    question = TrustQuestion(
        about="run",
        title=f"{verb} {_in_words(plan.turns)}?",
        detail=preview_text(plan, taking.cwd, variables),
        reason="",
        yes=verb,
        no="Cancel",
        ids=frozenset(),
        also=tuple(also),
    )
    return await ask_about_trust(question, call.ask_user, taking.session, call.emit, name="Undo")


def _nothing_to_undo(text: str, history: History, conversation: Conversation | None) -> CommandPage:
    effects = [(turn, effect) for turn in reversed(history.only_effects()) for effect in turn.effects]
    sections = [Section(text)]
    variables = None if conversation is None else conversation.features.variables
    if variables is not None and ran_code(effect for _, effect in effects):
        sections.append(Section("Variables", text=variables.why_not or NO_COPY))
    return CommandPage([*sections, *_effects(effects), *([_turns(history)] if history.turns else [])])


def _unconfirmed(plan: UndoPlan, taking: Undo, variables: VariablesPlan, verb: str) -> CommandPage:
    note = "Nobody could answer, so nothing was changed. Add `yes` to skip the question."
    rows = _rows(changes_of_plan(plan, taking.cwd), WOULD_BE)
    rows += [(change.text, "", "") for change in variables.coming_back]
    section = Section(f"{verb} {names_of(plan.turns)}?", rows, note)
    return CommandPage([section, *_rest(plan, taking, variables)])


def _outcome_page(
    plan: UndoPlan, rows: list[Row], failed: Sequence[str], taking: Undo, variables: VariablesPlan
) -> CommandPage:
    redo = plan.redo_of is not None
    texts = ["The conversation continues from there."] if plan.as_after is not None else []
    restores = "/redo restores files and cells, not variables." if variables.coming_back else "/redo restores it."
    texts.append(restores if not redo else "Claude learns of it with your next prompt.")
    title = f"{'Redone' if redo else 'Undone'}: {names_of(plan.turns)}"
    sections = [Section(title, rows, " ".join(texts))]
    if failed:
        sections.append(Section("Not done", [("",), *((why,) for why in failed)]))
    return CommandPage([*sections, *_rest(plan, taking, variables)])


def _rest(plan: UndoPlan, taking: Undo, variables: VariablesPlan) -> list[Section]:
    """List what is left as it is, and what cannot be taken back at all."""
    sections: list[Section] = []
    if left := left_out(plan, taking.cwd, variables):
        note = "`force` also undoes what has changed since; /redo would restore that." if plan.conflicts else ""
        if variables.conflicts:
            note = "`force` also undoes what has changed since."
        sections.append(Section("Left as they are", [("what", "because"), *left], note))
    if variables.note:
        sections.append(Section("Variables", text=variables.note))
    return [*sections, *_effects(plan.effects)]


def _effects(effects: Sequence[tuple[CheckpointTurn, str]]) -> list[Section]:
    return [Section(NOT_UNDONE, [("turn", "what was done"), *effect_rows(effects)], STAYS)] if effects else []


def _rows(changes: Sequence[Changed], what: Mapping[str, str]) -> list[Row]:
    return [("what", "lines", ""), *((each.where, in_figures(each), what[each.kind]) for each in changes)]


def _turns(history: History) -> Section:
    """The list of turns, the newest first."""
    rows: list[Row] = [("turn", "when", "prompt", "changed", "")]
    for turn in reversed(history.turns):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(turn.at))
        rows.append((str(turn.number), when, turn.prompt, _changed(turn), _state(turn)))
    text = (
        "/rewind TURN takes back that turn and all after it: files, cells and conversation, or `code`, `conversation`."
    )
    return Section("Turns", rows, text)


def _changed(turn: CheckpointTurn) -> str:
    files = sum(file.changed for file in turn.files.values())
    cells = sum(cell.changed for cell in turn.cells.values())
    counts = [words] if (words := change_words(files, cells)) else []
    if turn.effects:
        counts.append(f"{counted(len(turn.effects), 'effect')} that stay{'s' if len(turn.effects) == 1 else ''}")
    return ", ".join(counts) or "nothing"


def _state(turn: CheckpointTurn) -> str:
    facts = [
        ("undone", turn.files_undone),
        ("not in the conversation", turn.conversation_undone),
        ("did not end", not turn.ended),
    ]
    return ", ".join(name for name, holds in facts if holds)
