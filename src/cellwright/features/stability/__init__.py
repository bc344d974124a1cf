"""Stability: do the numbers of an answer hold on resampled data, with a permuted label, with another seed?

Start with `rerun`: it runs the calls that gave the numbers again, in copies of the kernel. `steps` reads the code of those
calls, `perturb` is what runs in a copy, `report` finds each number again in the new output and says what the results mean.
How a kernel is copied is the kernel's (`kernel/branches/reruns.py`).
"""
