"""Running a command with what it may do enforced by the operating system.

`network_proxy.py` is the way of confined commands to the hosts they may reach; `diagnosis.py` says what a machine lacks.

Not here: the decision what a command may do (`permissions/`), settings, questions to the user.
"""
