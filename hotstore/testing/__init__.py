"""Implementations of ports for tests. They ship with the product, so that others can test with them, too.

    simulated_disk   a disk in memory: a power cut loses unsynced writes and tears the last one; it fails on request

Nothing of the product imports this room.
"""
