"""Name the cells of a notebook whose execution counts are out of order; with --hook, as a hook that tells Claude."""

import json
import sys
from pathlib import Path
from typing import Any


def out_of_order(notebook: dict[str, Any]) -> list[int]:
    """Return the execution counts that are lower than one before them."""
    counts = [cell["execution_count"] for cell in notebook["cells"] if cell.get("execution_count")]
    return [count for at, count in enumerate(counts) if any(before > count for before in counts[:at])]


def main() -> None:
    as_hook = sys.argv[1:] == ["--hook"]
    call = json.load(sys.stdin)["tool_input"] if as_hook else {"file_path": sys.argv[1]}
    file = Path(call.get("notebook_path") or call.get("file_path") or "")
    if file.suffix != ".ipynb":
        return
    found = out_of_order(json.loads(file.read_text("utf-8")))
    text = f"{file.name}: cells were run out of order: {found}" if found else ""
    if as_hook and text:
        print(json.dumps({"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": text}}))
    elif not as_hook:
        print(text or f"{file.name}: cells were run in order")


main()
