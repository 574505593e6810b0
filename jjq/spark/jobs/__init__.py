"""Pipeline jobs: compact, verify, import, export, stats; each runs where Spark runs, over one cold store.

The driver makes a list of small items (names, ranges of blocks), executors open the store by themselves and
do the work, and counts come back: no element passes through the driver. Every job can be run again after
a crash at any point.
"""
