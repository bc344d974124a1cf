"""The index of a project's code: definitions, calls, imports and words, kept in one SQLite file and asked by the tools.

Start with `store.py`, which says what is kept; `indexer.py` fills it in a process of its own (`python -m
cellwright.codebase.indexer`), `index_reader.py` answers from it. `grammars.py` says which file has which
grammar of tree-sitter, `facts.py` what the index keeps of a file, `references.py` finds uses of a name. `vectors.py` is
search by meaning: `embedding_settings.py` names a model, `embedding_models.py` makes it.

Not here: the tools that Claude calls (`tools/code/navigation`), which also start the indexer, and how ripgrep is found
and run (`tools/search`).
"""
