"""The hot store: the recent past of the queues that this node serves.

Verbs enter by `store.py` (the protocol is `port.py`); `opening.py` opens a data directory; `engine.py` puts the
parts together, starts and closes them. Rooms: `write` (from a push to its receipt), `queue` (one queue in
memory), `journal` (what survives a crash), `checkpoint` (the state as a DuckDB file, so that a start replays
little), `read` (from a position to elements), `lifecycle` (start, seal, departure), `large` (large
objects), `testing` (a simulated disk). `runner.py` runs blocking work, `limits.py` and `settings.py` hold the numbers.
"""
