"""Keep what lies in data/raw as it is: exit code 2 is a no, and stderr tells Claude why."""

import json
import os
import sys
from pathlib import Path

call = json.load(sys.stdin)["tool_input"]
path = Path(call.get("file_path") or call.get("notebook_path") or "").resolve()
raw = Path(os.environ["CLAUDE_PROJECT_DIR"], "data", "raw").resolve()
if path.is_relative_to(raw):
    print(f"{path.name} is raw data and stays as it is. Write what you make of it to data/clean.", file=sys.stderr)
    sys.exit(2)
