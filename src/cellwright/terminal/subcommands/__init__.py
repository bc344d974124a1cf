"""The commands that are words: `cellwright doctor`, `sessions`, `trust`, `config`, `auth`, `plugin`, `trust-recording`.

None of these words is ever a prompt. Start with `subcommand_names.py`. Not here: slash commands (`commands`), the demo.
"""
