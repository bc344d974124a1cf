"""The prompt of a run as it is sent: checked, and with what Claude must know besides."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cellwright.agent.agent import Agent
from cellwright.agent.full_prompt import Beside, FullPrompt, Gathered, Moment, Prompt, Telling, text_beside
from cellwright.agent.prompt import PLAN_MODE, environment_text
from cellwright.agent.tool import Tool
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.session import Session

logger = logging.getLogger(__name__)


def checked(prompt: Prompt) -> Prompt:
    """The prompt without empty texts: the API refuses them, and would refuse each later request of the session for them.

    Raises `CellwrightError` INVALID_PARAMETERS when nothing is left.
    """
    kept = [block for block in _blocks(prompt) if block.get("type") != "text" or str(block.get("text", "")).strip()]
    if not kept:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, "The prompt is empty. Nothing was sent.")
    return prompt if len(kept) == len(_blocks(prompt)) else kept


def with_surroundings(
    prompt: Prompt, session: Session, agent: Agent, cwd: Path, face: str, language: str | None
) -> FullPrompt:
    """The prompt with, when it is the session's first, where Claude works; in plan mode, how to plan."""
    before: list[Beside] = []
    if not session.encoded:
        before.append(text_beside("Where Claude works", "environment", environment_text(cwd, face)))
        if language:
            text = f"<language>The user wants your answers in: {language}</language>"
            before.append(text_beside("The language of answers", "environment", text))
    plans = (session.mode or agent.policy.mode) == "plan" and any(tool.name == "ExitPlanMode" for tool in agent.tools)
    after = (text_beside("Plan mode", "mode", PLAN_MODE),) if plans else ()
    return FullPrompt(words=tuple(_blocks(prompt)), before=tuple(before), after=after)


def gathering(
    full: FullPrompt,
    tellings: Sequence[Telling],
    prompt: Prompt,
    agent: Agent,
    session: Session,
    tools: Sequence[Tool],
) -> FullPrompt:
    """`full` with all that `tellings` find, when the run has begun.

    A prompt that came as blocks mentions nothing: a program has put it together.
    """
    words = prompt if isinstance(prompt, str) else ""
    moment = Moment(words=words, agent=agent, session=session, tools={tool.name: tool for tool in tools})

    async def gather() -> Gathered:
        found = await asyncio.gather(*(_told(telling, moment) for telling in tellings))
        return Gathered(
            before=tuple(part for each in found for part in each.before),
            after=tuple(part for each in found for part in each.after),
            notices=tuple(notice for each in found for notice in each.notices),
        )

    return replace(full, gather=gather)


async def _told(telling: Telling, moment: Moment) -> Gathered:
    try:
        return await telling(moment)
    except Exception as error:
        # what is told besides is a help, made of whatever a notebook holds: without it the prompt is answered all the same
        logger.exception("something could not be told with a prompt")
        return Gathered(notices=(f"Not all could be told with the prompt: {type(error).__name__}: {error}",))


def _blocks(prompt: Prompt) -> list[Any]:
    return [{"type": "text", "text": prompt}] if isinstance(prompt, str) else list(prompt)
