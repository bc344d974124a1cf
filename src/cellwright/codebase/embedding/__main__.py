"""`python -m cellwright.codebase.embedding`: the process that embeds. Its task comes as JSON on its standard input."""

from __future__ import annotations

import sys

from cellwright.codebase.embedding.worker import main

if __name__ == "__main__":
    sys.exit(main())
