"""The part of Cellwright inside Jupyter Server: REST, event streams, limits, the proxy that keeps the key.

Start with `server_extension.py`, the composition root. Routes check what they are given and pass it on; a run happens
in a kernel: `relay.py` is the way to it, over `kernel_connection.py`. What an administrator decides are the traits of
`policy.py`, which `administration.py` puts into force.

Not here: running an agent, importing `cellwright.kernel` (another process). Blocking work goes to a worker thread.
"""
