"""Limits of sharding: numbers, their units, and the relations between them that must hold."""

from __future__ import annotations

from typing import Final

from coldstore.shared.errors import check
from coldstore.shared.limits import KIB, MIB

BALANCE: Final = 0.1  # a node is in balance up to this share of the mean above it or below it

PLAN_MOVES_MAX: Final = 10_000  # of one plan, so that it fits into a message

# Nodes
BEAT_SECONDS: Final = 2.0
DEAD_SECONDS: Final = 10.0
DEAD_BEATS_MIN: Final = 3
NODE_READS_MAX: Final = 16  # documents of other nodes that one look reads, those read longest ago first

# Routing
ROUTES_MAX: Final = 200_000  # queues whose owner a node remembers; about 60 MB
ROUTE_SECONDS: Final = 30.0  # a read looks again which nodes serve which range if the route is older
AGAIN_SECONDS: Final = 1.0  # a route to a dead node is read again if it is older
HOPS_MAX: Final = 3  # nodes asked for one request while a queue moves; one is the rule, two after a move

check(DEAD_BEATS_MIN * BEAT_SECONDS <= DEAD_SECONDS, "one lost heartbeat must not be a death")

# Tenure: a node is dead if its document has not changed for LEASE_MARGIN leases, by the observer's own clock
TENURE_BEAT_SECONDS: Final = 2.0
LEASE_SECONDS: Final = 10.0
LEASE_MARGIN: Final = 1.5  # others wait so many times as long as the holder: clocks may run at unequal speed
TENURE_LOOK_SECONDS: Final = 1.0  # how often a node looks at the others' tenures
WATCH_LOOKS: Final = 20  # at a holder that seems dead, before a start or an operator takes its tenure
# A single server's lease is so many times as long: nobody waits, and beats cost.
SINGLE_NODE_LEASES: Final = 3

RETRY_SECONDS: Final = 0.5  # a client asks again after so long for a queue that is being taken over
TAKERS: Final = 8  # queues of a dead node that are sealed at once
TAKE_AGAIN_SECONDS: Final = 30.0  # between attempts to take over a journal that could not be taken in full

CUT_OFF_LEASES: Final = 3  # a node that did not reach the store for so many leases stops
CLOSE_SECONDS: Final = 5.0  # a node that closes waits for so long for a lease that has run out

HISTORY_QUEUES_MAX: Final = 1_000  # queues of others whose lists of blocks are kept in memory

# Journal on object storage
JOURNAL_WINDOW: Final = 64  # numbers that one run may have in flight; the next run begins behind them
JOURNAL_PUTS_MAX: Final = 8  # … of which so many are used
JOURNAL_BATCHES_MAX: Final = 4  # that are put at once; they share the bytes of one group
JOURNAL_PART_BYTES: Final = 2 * MIB  # a larger batch is cut; its parts are put side by side
JOURNAL_OBJECT_BYTES_MIN: Final = 64 * KIB  # what an object counts for at least in the journal's budget
JOURNAL_READS_MAX: Final = 16  # objects that are fetched ahead in a replay
JOURNAL_FLUSH_SECONDS: Final = 0.05  # least time between the beginnings of two groups of pushes
JOURNAL_FLUSH_SECONDS_MAX: Final = 10.0
JOURNAL_TRIM_SECONDS: Final = 10.0  # a trim costs a put for all of its objects
JOURNAL_TRIM_BYTES: Final = 64 * MIB  # … or as soon as so much can go
# Between two checkpoints while things change; sooner if the journal grows.
CHECKPOINT_PUT_SECONDS: Final = 60.0
JOURNAL_RETRY_SECONDS: Final = 0.2  # between attempts while the store cannot be reached

check(3 * TENURE_BEAT_SECONDS <= LEASE_SECONDS, "one lost beat must not end a lease")
check(LEASE_MARGIN > 1, "others must wait longer than the holder")
check(CUT_OFF_LEASES > LEASE_MARGIN, "a node must not stop before others can have taken over")
check(JOURNAL_PUTS_MAX <= JOURNAL_WINDOW, "a put beyond the window would meet the next run's")
