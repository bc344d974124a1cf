"""Containers: commands see an image's files instead of this machine's, and of its folders those that their bounds name.

Start with `pool.py`: the containers of this process, by Podman or Docker, and the start of a command in one of them.
`engine.py` writes the command lines of these programs, and says which folders a container gets. `images.py` fetches or
builds an image; where neither program runs it unpacks it, and `bubblewrap.py` shows its files.

Not here: which commands run in a container, and what they may touch (`permissions` decides that).
"""
