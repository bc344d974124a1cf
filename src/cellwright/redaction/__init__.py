"""Secrets: the formats they are known by, and finding them in texts.

`secret_kinds.py` is for what comes in while a run goes on, `secret_scan.py` for what is written to a file.

Not here: which results are redacted when (`agent/calls/redaction.py`).
"""
