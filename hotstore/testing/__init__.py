"""Implementations of ports for tests. They ship with the product, so that others can test with them, too.

    simulated_disk   a disk in memory that loses unsynced writes at a power cut, tears the last one, and fails on request

Nothing of the product imports this room.
"""
