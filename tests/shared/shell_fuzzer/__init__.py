"""A fuzzer of what runs unasked: commands from a grammar, decided by the policy, run under strace, and held to the decision.

`world.py` builds a project with canaries in and around it, `grammar.py` writes commands, `traced_shell.py` runs one and
tells what it touched, `judge.py` says what of that the decision did not cover. Start with `fuzzing.py`.
"""
