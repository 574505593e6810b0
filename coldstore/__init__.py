"""The whole past: checksummed Parquet blocks and their metadata on an object store.

The format outlives every process, so this package owns the words that everything else is written
in: element batches, errors, limits, clock, chance. It imports nothing of the packages above it.
"""
