"""The request that starts a run of a conversation."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from cellwright.agent.prompt import ContextProvider, Prompt
from cellwright.conversation.runs.kinds import LIVE, RunKind, TrustCheck
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.sessions.session import Session

CellActionName = Literal["fix", "edit", "explain", "document"]


class CellAction(Struct, frozen=True, kw_only=True):
    """An action on the cell `id` of the notebook that its page knows as `path`; `words` are what the user said besides.

    `label` is the cell in words (`cell [3]`), `error` the kind of error that its output shows.
    """

    name: CellActionName
    path: str
    id: str
    label: str
    error: str = ""
    words: str = ""


class RunRequest(Struct, frozen=True, kw_only=True):
    """A question to Claude, and how it is to be answered.

    `context` finds what Claude is told besides the prompt and what it mentions. `origin` says in words where it was
    asked for; `background`: no thread waits for its end. What it needs of the session is looked at when its turn has
    come: then it goes on with a new one (`new_session`), or with the one of the id `resume`. `session` stands in for the
    conversation's own for this run; `kind` says whether it is a live one, a dry run or a replay. Each of
    `trust_checks` may have a question about trust before it, besides the settings. `cell_action` is the action on a
    cell that `prompt` is the title of.
    """

    prompt: Prompt
    options: RunOptions = field(default_factory=RunOptions)
    context: tuple[ContextProvider, ...] = ()
    origin: str = "Python"
    background: bool = False
    new_session: bool = False
    resume: str | None = None
    session: Session | None = None
    kind: RunKind = LIVE
    trust_checks: tuple[TrustCheck, ...] = ()
    cell_action: CellAction | None = None
