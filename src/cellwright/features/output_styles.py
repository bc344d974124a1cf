"""The output style of a conversation: what the settings name, found among those that count."""

from __future__ import annotations

from collections.abc import Sequence

from cellwright.config.output_styles import DEFAULT, DEFAULT_STYLE, OutputStyle, find_styles
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.feature import Feature, RunInfo
from cellwright.conversation.prompts.system_prompt import USUAL_STYLE, AnswerStyle, PromptSection


class OutputStyles(Feature):
    """Finds the styles that count, and the one that sessions begin with."""

    def __init__(self, in_force: SettingsInForce) -> None:
        self._in_force = in_force

    def all(self) -> dict[str, OutputStyle]:
        """The styles that count now, by their names in small letters."""
        return find_styles(self._in_force.skill_place)

    @property
    def named(self) -> str:
        """The name that the settings have for the style."""
        return self._in_force.settings.output_style or DEFAULT

    def notices(self, run: RunInfo) -> Sequence[str]:
        problem = "" if run.session.has_begun else self.chosen()[1]
        return [problem] if problem else []

    def chosen(self) -> tuple[OutputStyle, str]:
        """The style that a session begins with now, and what the user must know of it ("" where all is well)."""
        if (name := self.named.lower()) == DEFAULT:
            return DEFAULT_STYLE, ""
        styles = self.all()
        if name in styles:
            return styles[name], ""
        known = ", ".join(style.name for style in styles.values())
        return DEFAULT_STYLE, f"Output style {self.named!r} was not found; the styles are {known}. The default is used."

    def answer_style(self) -> AnswerStyle:
        """The style that a session begins with now, as the system prompt has it."""
        return as_answer_style(self.chosen()[0])


def as_answer_style(style: OutputStyle) -> AnswerStyle:
    """The section of the system prompt that `style` is."""
    if style.name == DEFAULT:
        return USUAL_STYLE
    return AnswerStyle(PromptSection(f"Output style: {style.name}", style.text), keeps_coding=style.keeps_coding)
