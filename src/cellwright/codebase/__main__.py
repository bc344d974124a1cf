"""`python -m cellwright.codebase`: the process that fills an index. Each line of its standard input is a request."""

from __future__ import annotations

import sys

from cellwright.codebase.indexer import main

if __name__ == "__main__":
    sys.exit(main())
