"""Skills and commands that users bring: `SKILL.md` in a folder of its own, and `.claude/commands/*.md`.

Places, front matter and substitutions are Claude Code's. `skills.py` finds them, reads them,
and puts what was given into a text. They are offered, loaded and called in `features/skills.py`.
"""
