"""What a style leaves of the system prompt."""

from __future__ import annotations

from pathlib import Path

from cellwright.config.output_styles import BUILT_IN, find_styles
from cellwright.config.skills import SkillPlace
from cellwright.conversation.system_prompt import system_sections
from cellwright.features.standard import as_answer_style


def test_a_style_leaves_out_what_it_does_not_keep(tmp_path: Path) -> None:
    place = SkillPlace(cwd=tmp_path, project=tmp_path, users=tmp_path / "users", managed=tmp_path / "managed")
    styles = find_styles(place)
    assert set(styles) == {"default", "explanatory", "learning", "concise", "proactive"}
    assert len(list(BUILT_IN.glob("*.md"))) == len(styles) - 1
    for name, style in styles.items():
        found = {section.name for section in system_sections([], as_answer_style(style))}
        assert "How to work" in found, name
        assert ("How to answer" in found) is (name == "default"), name
        assert "Instructions" in found, name
        assert "Calls" in found, name
