"""Limits of the front end; those that bind the stores too are in coldstore.shared.limits."""

from __future__ import annotations

from typing import Final

from coldstore.shared.errors import check
from coldstore.shared.limits import BATCH_BYTES_MAX, KIB, MESSAGE_BYTES_MAX, MIB

PORT: Final = 7575

# One connection
METADATA_BYTES_SOFT: Final = 8 * 1024
METADATA_BYTES_MAX: Final = 16 * 1024
# Open calls of one connection; further ones wait at the client. Core counts a call until our loop has seen
# its end, so with a limit of 100 a client with 64 calls in flight was at times refused.
STREAMS_MAX: Final = 1_000
PING_SECONDS_MIN: Final = 300.0  # a client that pings an idle connection more often is cut off
PING_STRIKES_MAX: Final = 2
KEEPALIVE_SECONDS: Final = 60.0  # the server asks idle connections this often whether they are alive
CLIENT_KEEPALIVE_SECONDS: Final = 330.0
KEEPALIVE_TIMEOUT_SECONDS: Final = 20.0
HANDSHAKE_SECONDS: Final = 10.0

# One server
CALLS_MAX: Final = 10_000  # open calls of all connections; further ones get RESOURCE_EXHAUSTED
CALLS_PENDING_MAX: Final = (
    2 * CALLS_MAX
)  # came, and not looked at yet; further ones are dropped without a reason
STREAM_BYTES_MAX: Final = (
    64 * MIB
)  # unanswered pushes of one PushStream; it is not read further while it has more
STREAM_PUSHES_MAX: Final = 1_024  # … or more of them, and as many in one message
STREAM_PRODUCERS_MAX: Final = 1_000
POP_STREAM_MAX: Final = 64  # unanswered pops of one PopStream; it is not read further while it has as many
STREAMS_OPEN_MAX: Final = 8_000  # long streams of all connections, so that calls find room beside them
OUTGOING_BYTES_MAX: Final = 128 * MIB  # what clients have not read yet; see jjq/server/outgoing.py
OUTGOING_BYTES_MIN: Final = 4 * MIB  # of that setting
SLOW_SECONDS: Final = 5.0  # a message that waited so long is not read: its stream may be closed
IDLE_SECONDS: Final = 1_800.0  # a connection without calls is closed
GRACE_SECONDS: Final = 10.0
WATCH_SECONDS: Final = 10.0  # how soon a Subscribe stream notices that another server moved its subscriber

# One message
MESSAGE_FIELDS_MAX: Final = 64  # at the top level; no message of ours has as many
REQUEST_BYTES_MAX: Final = (
    64 * KIB
)  # of a request beside its batch; names at their limits take less than 1 KiB
ARROW_SCHEMA_BYTES_MAX: Final = 64 * KIB  # of a stream; ours have 1 KiB, others add metadata
ARROW_MESSAGES_MAX: Final = 64  # of a stream: a schema, dictionaries, one batch
ERROR_BYTES_MAX: Final = 1_000  # an error travels in trailers, three times encoded
STREAM_MESSAGE_BYTES: Final = 512 * KIB  # elements in a message of a stream: the quickest size, measured
STREAM_MESSAGE_BYTES_MIN: Final = (
    8 * KIB
)  # … and the smallest, where little of the budget for clients is free
STREAM_MESSAGE_PUSHES: Final = 64  # pushes that our client sends in one, at most
LARGE_BYTES: Final = 1 * MIB  # what counts as large: its memory goes back to the system when it is done with
TRIM_SECONDS: Final = 0.1  # after a large message, memory that is free goes back to the system
WAIT_SECONDS_MAX: Final = 3_600.0
PAGE_MAX: Final = 10_000  # entries of a list; the longest (subscribers, all names at their limit) take 8 MB

# One client
CALL_SECONDS: Final = 30.0  # budget of one verb, all its attempts together
CONNECT_SECONDS: Final = 5.0
CONTACT_SECONDS: Final = 1.0  # a look at a server that cannot be reached, to find out why
MEET_SECONDS: Final = 0.5  # for the first connection of a client to come about, before that look
OPERATOR_SECONDS: Final = 60.0  # budget of an operator's call: a move seals a block first
MOVES_MAX: Final = 8  # shards that a plan moves at the same time
WIRE_NUMBER_MAX: Final = 2**32 - 1  # of a push on a wire; then they begin again
WIRES_MAX: Final = 2_000  # connections of other nodes for what they forward
WIRE_AGAIN_SECONDS: Final = 2.0  # before a node that cannot be reached by one is tried again
PEER_SECONDS: Final = 10.0  # budget of a forwarded call; clients have a longer one, and try again
BACKOFF_SECONDS: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 2.0
CHANNEL_STREAMS_MAX: Final = 200  # long streams that share a connection, so that calls find room beside them
CLIENT_BYTES_MAX: Final = 32 * MIB  # pushes of one queue that are on their way
PLAIN_STREAMS_MAX: Final = 16  # queues to which plain pushes go over a stream, not as calls
PLAIN_SECONDS: Final = 60.0  # a stream for plain pushes, or pops, is ended when it was not used for so long
POP_TARGETS_MAX: Final = 256  # servers to which pops go over a stream, not as calls
LAGGING_MAX: Final = 10_000  # subscribers of which a client remembers that they have more to pop
JOIN_CALLS: Final = 2  # plain pushes of a queue that are on their way; further small ones travel together
JOIN_PUSH_BYTES: Final = 16 * KIB  # what counts as small
JOIN_BYTES_MAX: Final = 1 * MIB
ATTEMPT_SECONDS: Final = 10.0  # one attempt of a verb, where there are other servers to ask
PAGE_ENTRIES: Final = 1_000  # of a list, asked for at once
HINTS_MAX: Final = 100_000  # queues whose owner a client remembers
REDIRECTS_MAX: Final = 3  # hints that a read follows without an element in between
HINT_SECONDS: Final = 60.0  # a server that a hint names and that cannot be reached is left alone for so long
CONFIRM_SECONDS: Final = 0.01  # confirmations of a subscriber that are made within this time are sent as one
CREDIT_ELEMENTS: Final = 100_000
CREDIT_BYTES: Final = 16 * MIB

check(STREAM_MESSAGE_PUSHES <= STREAM_PUSHES_MAX, "our own clients would be refused")
check(BATCH_BYTES_MAX < STREAM_BYTES_MAX, "a stream must hold a batch")
check(9 * ERROR_BYTES_MAX < METADATA_BYTES_MAX, "an error must fit into trailers")
check(CLIENT_KEEPALIVE_SECONDS > PING_SECONDS_MIN, "our own clients would be cut off")
check(STREAMS_OPEN_MAX < CALLS_MAX, "streams would leave no room for calls of others")
check(CHANNEL_STREAMS_MAX < STREAMS_MAX, "streams would leave no room for calls")
check(BACKOFF_SECONDS <= BACKOFF_SECONDS_MAX < CALL_SECONDS, "backoff exceeds budget")
check(MESSAGE_BYTES_MAX > BATCH_BYTES_MAX, "a batch must fit into a message")
check(PAGE_ENTRIES <= PAGE_MAX, "our own clients would ask for more than they get")
