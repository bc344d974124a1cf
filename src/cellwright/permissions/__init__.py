"""The decision whether a call may run, as a pure function of rules, mode and call.

Start with `policy.py`: `PermissionPolicy(...).decide(tool, input)`, and the table of which judge is asked about which
tool. A rule that grants is read narrowly, one that restricts widely. A new case goes into a table of
`tests/permissions`, in both directions: what must not pass, and what must pass without a question.

Not here: asking (a front end does), running, settings files, state. On disk, `stat`, `readlink` and listing are all
that judging does, besides reading the configuration and index of a Git repository.
"""
