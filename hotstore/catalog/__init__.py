"""Queues and subscribers as tables in DuckDB: a view for people, never on the path of a push or pop.

    catalog   the file: written in one transaction, rebuilt when damaged
    tables    the tables, and how to recognize them
    probe     looks at a file in a process of its own, because a damaged one may crash DuckDB
    view      takes the changes from the registry and writes them

Invariant: the journal is the truth; the catalog can be deleted at any time.
"""
