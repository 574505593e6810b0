"""Implementations of ports for tests, and suites for their authors. They ship, so that others can use them, too.

    simulated_disk   a disk in memory: a power cut loses unsynced writes and tears the last one; it fails on request
    driver_contract  the contract of a driver of worker groups, as a suite for those who write one

Nothing of the product imports this room.
"""
