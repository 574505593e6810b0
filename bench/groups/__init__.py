"""Worker groups over the network, beside the work queues of the peers.

peers      how each system hands out one task and is told that it is done
network    64 workers, one task each: the rows
__main__   the same as a chart: `python -m bench.groups`
"""
