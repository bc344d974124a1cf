"""The answer of a cell to a flag of the command `cellwright`, or of Claude Code's, that is no option of a cell."""

from __future__ import annotations

_CONTINUES = (
    "the cells of a notebook continue one conversation by themselves; `--resume ID` goes on with another, and "
    "`%claude /clear` begins a new one"
)
_MODE = "write `--mode MODE`"
_FORMAT = "write `--format json`, or json-lines"
_FILES = "settings are in files: `%claude /config` lists them, `%config Claude` holds those of this kernel"
_STDIN = "a cell has no stdin and stdout of its own; `%%claude --format json-lines` shows each event"
_SETUP = "Setup hooks are run by the command: `cellwright --init-only` in a terminal"
_VERBOSE = "`%claude /bug` collects what went wrong, and the command `cellwright --verbose` logs"

_OF_A_COMMAND = {
    "continue": _CONTINUES,
    "fork-session": "`%claude /fork` goes on in a copy of the conversation",
    "session-id": "a session has an id of its own, which `%claude /status` shows",
    "no-session": "`cellwright.ask(…, session=None)` keeps nothing on disk",
    "no-session-persistence": "`cellwright.ask(…, session=None)` keeps nothing on disk",
    "print": "a cell is one prompt, and its answer is shown below it",
    "help": "`%claude?` shows the options, `%claude /help` the commands",
    "version": "`%claude /status` shows the version",
    "permission-mode": _MODE,
    "dangerously-skip-permissions": "write `--mode bypassPermissions`",
    "permission-prompts": "write `--on-denied skip`, and nothing is asked",
    "permission-prompt-tool": "the cell asks you; `cellwright.ask(…, can_use_tool=…)` asks a function",
    "allowed-tools": "write `--allow RULE`, again for each rule",
    "allowedTools": "write `--allow RULE`, again for each rule",
    "disallowed-tools": "write `--deny RULE`, again for each rule",
    "disallowedTools": "write `--deny RULE`, again for each rule",
    "max-budget-usd": "write `--budget USD`",
    "json-schema": "write `--schema NAME`, with the name of a type or a schema in the notebook",
    "output-format": _FORMAT,
    "input-format": _STDIN,
    "include-partial-messages": _STDIN,
    "replay-user-messages": _STDIN,
    "settings": _FILES,
    "setting-sources": _FILES,
    "bare": _FILES,
    "safe-mode": _FILES,
    "strict-mcp-config": "`%claude /mcp` switches servers off",
    "plugin-dir": "plugins are installed first: `cellwright plugin install FOLDER`",
    "trust": "the first prompt in a folder asks whether you trust what it brings along",
    "init": _SETUP,
    "init-only": _SETUP,
    "maintenance": _SETUP,
    "verbose": _VERBOSE,
    "debug": _VERBOSE,
}


_LETTERS = {"c": "continue", "d": "debug", "h": "help", "n": "name", "p": "print", "v": "version", "w": "worktree"}


def why_no_short_flag(letter: str) -> str:
    """Say what to write in a cell in place of the flag `-letter`; "" for a letter that is no flag."""
    if letter == "r":
        return "write `--resume ID`"
    return why_no_option(_LETTERS[letter]) if letter in _LETTERS else ""


def why_no_option(name: str) -> str:
    """Say what to write in a cell in place of the flag `--name`, or why there is none; "" for a name that is no flag."""
    if why := _OF_A_COMMAND.get(name):
        return why
    from cellwright.terminal.claude_code.flags import FLAGS  # its table has the reasons of all that has no effect

    flag = FLAGS.get(f"--{name}")
    return "" if flag is None else flag.why
