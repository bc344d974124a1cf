"""Files of skills as people name them."""

from __future__ import annotations

import pytest

from cellwright.config.skills import SkillPlace, find_skills
from row_tables import for_each_row


@for_each_row("name", ["SKILL.md", "skill.md", "Skill.md"])
def test_a_skills_file_may_be_written_in_any_case(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    users = tmp_path_factory.mktemp("users")
    (users / "skills" / "tidy").mkdir(parents=True)
    (users / "skills" / "tidy" / name).write_text("---\nname: tidy\ndescription: Tidy up.\n---\nBe tidy.\n", "utf-8")
    (users / "skills" / "other.txt").write_text("no skill", "utf-8")
    place = SkillPlace(cwd=users, project=users, users=users, managed=users / "none", built_in=False)
    assert {skill.name: skill.description for skill in find_skills(place).values()} == {"tidy": "Tidy up."}
