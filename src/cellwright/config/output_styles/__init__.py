"""Output styles: how Claude works and answers, as a section of the system prompt.

Formats and places are Claude Code's: Markdown files in `.claude/output-styles` and `~/.claude/output-styles`. What of the
system prompt a style leaves out is decided in `conversation/system_prompt.py`. Begin with `output_style.py`.
"""
