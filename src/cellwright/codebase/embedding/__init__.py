"""Code as vectors: the models that make them, where they are kept, and the process that fills in what is missing.

Start with `provider.py`: one function type, `Embed`, for all models, and the settings that name one; `load_model.py`
makes it. `worker.py` is the process, `vectors.py` what it writes and a search asks.

Not here: words and definitions, which need no model (`codebase/indexer.py`), and the user's consent to what leaves the
machine (`commands`).
"""
