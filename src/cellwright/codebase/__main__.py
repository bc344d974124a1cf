"""`python -m cellwright.codebase`: the process that fills an index. What it is to do comes as JSON on its standard input."""

from __future__ import annotations

import sys

from cellwright.codebase.indexer import main

if __name__ == "__main__":
    sys.exit(main())
