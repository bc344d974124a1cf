"""Stability: do the numbers of an answer hold on resampled data, with a permuted label, with another seed?

Start with `rerun`: it runs the calls that gave the numbers again, in copies of the kernel. `steps` reads the code of those
calls, `perturb` is what runs in a copy, `follow` finds each number again in the new output, `report` has the results and
what they say. How a kernel is copied is the kernel's (`kernel/branches/reruns.py`).
"""
