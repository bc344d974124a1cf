"""Commands that the operating system bounds: which of them run unasked, and what each may read, write and reach.

What stands here is about use, not safety: a program that is taken for a reader and writes is refused by the sandbox, not
by these lists, which only keep a command from being started that could but fail. Nothing here looks at rules for
commands, and nothing here enforces anything. Start with `bounds.py`.
"""
