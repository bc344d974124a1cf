"""Skills and commands that users bring: `SKILL.md` in a folder of its own, and `.claude/commands/*.md`.

Places, front matter and substitutions are Claude Code's. `find_skills.py` finds them, `skill.py` reads one,
`arguments.py` puts what was given into its text. They are offered, loaded and called in `features/skills.py`.
"""
