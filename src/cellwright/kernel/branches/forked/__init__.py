"""The forked processes: what each must give up before it may live, and what it is then.

Start with `resets.py`. `snapshot_process.py` and `branch_process.py` are the two kinds. All of it is imported in the kernel,
before the fork: a copy would do it anew each time.

Not here: the kernel's ends of them, and what confines a branch.
"""
