"""Several files changed as one: by a patch, or by a tool that works out what each of them becomes.

`patch_plan.py` works out what a unified diff makes of the files that it names; `patched_files.py` checks, shows and writes
such files, all or none.

Not here: reading a diff (`permissions/patch_text.py`), and the steps of writing (`atomic_write.py`).
"""
