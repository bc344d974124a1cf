"""The sandbox: a command may touch what its `Confinement` says, because the operating system refuses the rest.

Start with `mechanisms.py`: which means this machine has, found out by trying, the start of a confined command, and how
to get the means that a machine lacks.
`resolved_bounds.py` says what a confinement comes to on this disk, `profile.py` what programs need in order to run at
all. Each means is a module: `landlock.py` and `bubblewrap.py` with the filter of `seccomp.py` on Linux,
`seatbelt.py` on macOS. `staging.py` has a command change a copy of a folder. `paths.py` says which
files are the kernel's, and so in no folder's bounds; `network.py` is the one way out of a sandbox that may reach named
hosts; `refusals.py` says what a command was refused. `containers/` has commands run in an image's files instead of this
machine's.

Not here: what a command may touch (`permissions` decides that), and any child that is not confined (`tools/process`).
"""
