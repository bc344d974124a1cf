"""The prompt of a run as it is sent: checked, and with what Claude must know besides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cellwright.agent.agent import Agent, Prompt
from cellwright.agent.prompt import PLAN_MODE, environment_text
from cellwright.agent.session import Session
from cellwright.errors import CellwrightError, ErrorCode


def checked(prompt: Prompt) -> Prompt:
    """The prompt without empty texts: the API refuses them, and would refuse each later request of the session for them.

    Raises `CellwrightError` INVALID_PARAMETERS when nothing is left.
    """
    kept = [block for block in _blocks(prompt) if block.get("type") != "text" or str(block.get("text", "")).strip()]
    if not kept:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, "The prompt is empty. Nothing was sent.")
    return prompt if len(kept) == len(_blocks(prompt)) else kept


def with_surroundings(
    prompt: Prompt, session: Session, agent: Agent, *, cwd: Path, face: str, language: str | None
) -> Prompt:
    """The prompt with, when it is the session's first, where Claude works; in plan mode, how to plan."""
    before = [] if session.encoded else [environment_text(cwd, face), *_about_language(language)]
    plans = (session.mode or agent.policy.mode) == "plan" and any(tool.name == "ExitPlanMode" for tool in agent.tools)
    after = [PLAN_MODE] if plans else []
    return [*_texts(before), *_blocks(prompt), *_texts(after)]


def _about_language(language: str | None) -> list[str]:
    return [f"<language>The user wants your answers in: {language}</language>"] if language else []


def _blocks(prompt: Prompt) -> list[Any]:
    return _texts([prompt]) if isinstance(prompt, str) else list(prompt)


def _texts(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]
