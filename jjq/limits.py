"""Limits of the front end; those that bind the stores too are in coldstore.shared.limits."""

from __future__ import annotations

from typing import Final

from coldstore.shared.errors import check
from coldstore.shared.limits import BATCH_BYTES_MAX, KIB, MESSAGE_BYTES_MAX, MIB, READ_BATCH_BYTES

PORT: Final = 7575
PORT_MAX: Final = 65_535

# One connection
METADATA_BYTES_SOFT: Final = 8 * 1024
METADATA_BYTES_MAX: Final = 16 * 1024
# Open calls of one connection; further ones wait at the client. Core counts a call until our loop has seen
# its end, so with a limit of 100 a client with 64 calls in flight was at times refused.
STREAMS_MAX: Final = 1_000
RECEIVES_FIRST: Final = (
    1  # requests of one connection that are received at a time: of one that is new, or sends much …
)
RECEIVES_MAX: Final = 32  # … and of one whose requests are small
# What a client may send of a message that nobody has asked for yet. Core would go up to 4 MiB, for each of 1,000
# streams; a message that is being received gets room for all of itself.
LOOKAHEAD_BYTES: Final = 256 * KIB
PING_SECONDS_MIN: Final = 300.0  # a client that pings an idle connection more often is cut off
PING_STRIKES_MAX: Final = 2
KEEPALIVE_SECONDS: Final = 60.0  # the server asks idle connections this often whether they are alive
CLIENT_KEEPALIVE_SECONDS: Final = 330.0
KEEPALIVE_TIMEOUT_SECONDS: Final = 20.0
HANDSHAKE_SECONDS: Final = 10.0

# One server
CALLS_MAX: Final = 10_000  # open calls of all connections; further ones get RESOURCE_EXHAUSTED
# Came, and not looked at yet; further ones are dropped without a reason.
CALLS_PENDING_MAX: Final = 2 * CALLS_MAX
# Unanswered pushes of one PushStream; it is not read further while it has more.
STREAM_BYTES_MAX: Final = 64 * MIB
STREAM_PUSHES_MAX: Final = 1_024  # … or more of them, and as many in one message
STREAM_PRODUCERS_MAX: Final = 1_000
POP_STREAM_MAX: Final = 64  # unanswered pops of one PopStream; it is not read further while it has as many
# Unanswered requests of one Work stream; it is not read further while it has as many.
WORK_STREAM_MAX: Final = 256
STREAMS_OPEN_MAX: Final = 8_000  # long streams of all connections, so that calls find room beside them
STALL_LOOK_SECONDS: Final = 0.01  # how often a server looks how late its event loop is
COLLECT_AFTER: Final = (
    10_000,
    20,
    20,
)  # new objects before a collection of garbage, and smaller ones before larger
OUTGOING_BYTES_MAX: Final = 96 * MIB  # what clients have not read yet; see jjq/server/outgoing.py
OUTGOING_BYTES_MIN: Final = 4 * MIB  # of that setting
# Large messages of all connections that are received or worked on; see jjq/server/incoming.py.
INCOMING_BYTES_MAX: Final = 32 * MIB
RECEIVE_SECONDS: Final = 0.1  # one that was asked for and does not come is no longer counted, …
HOLD_SECONDS: Final = 2.0  # … nor one that is worked on for so long: it waits for something else
DECODES_MAX: Final = 2  # large ones of them that are decoded at a time
SENDERS_MAX: Final = 10_000  # connections of which is known what they sent of late
SLOW_SECONDS: Final = 5.0  # a message that waited so long is not read: its stream may be closed
IDLE_SECONDS: Final = 1_800.0  # a connection without calls is closed
GRACE_SECONDS: Final = 10.0
WATCH_SECONDS: Final = 10.0  # how soon a Subscribe stream notices that another server moved its subscriber

# One message
MESSAGE_FIELDS_MAX: Final = 64  # at the top level; no message of ours has as many
# Of a request beside its batch; names at their limits take less than 1 KiB.
REQUEST_BYTES_MAX: Final = 64 * KIB
UPLOAD_MESSAGE_BYTES_MAX: Final = 4 * MIB + 1 * KIB  # a piece of a large object, and where it belongs
OBJECT_SECONDS: Final = 60.0  # to take one piece of a large object, or to give the first one
OBJECT_DIRECT_BYTES: Final = 4 * MIB  # a larger object goes over HTTP where it can; it is read in such pieces
OBJECT_FINISH_SECONDS: Final = 600.0  # to make a large object durable after its last byte
TASKS_MAX: Final = 100_000  # of one take or one change
TASK_BYTES_MAX: Final = 32  # an id, an attempt, a deadline and a priority as varints, rounded up
CHANGE_BYTES_MAX: Final = TASKS_MAX * TASK_BYTES_MAX + REQUEST_BYTES_MAX  # of a request or a reply with tasks
COMPLETE_PUSHES_MAX: Final = 64
EVER_US: Final = 253_402_300_799_000_000  # the year 9999: as tasks are, whatever the clock of the server says
TASK_PAGE: Final = 100  # tasks of a page, if no number is asked for
TASK_PAGE_BYTES: Final = 4 * MIB  # values and headers of a page, then it ends
TASK_STEP: Final = 4  # tasks that a server reads first for a page, as each may be as large as an element; …
TASK_STEP_MAX: Final = 512  # … then twice as many each time, up to this
REASON_CHARS_MAX: Final = 1_000  # of an exception that a worker gives as the reason of a nack
ARROW_SCHEMA_BYTES_MAX: Final = 64 * KIB  # of a stream; ours have 1 KiB, others add metadata
ARROW_MESSAGES_MAX: Final = 64  # of a stream: a schema, dictionaries, one batch
ERROR_BYTES_MAX: Final = 1_000  # an error travels in trailers, three times encoded
STREAM_MESSAGE_BYTES: Final = 512 * KIB  # elements in a message of a stream: the quickest size, measured
STREAM_MESSAGE_BYTES_MIN: Final = (
    8 * KIB
)  # … and the smallest, where little of the budget for clients is free
STREAM_MESSAGE_PUSHES: Final = 64  # pushes that our client sends in one, at most
LARGE_BYTES: Final = 1 * MIB  # what counts as large: its memory goes back to the system when it is done with
TRIM_BYTES: Final = 16 * MIB  # so many small messages are as one that is large
TRIM_SECONDS: Final = 0.5  # after a large message, memory that is free goes back to the system, …
TRIM_SECONDS_MAX: Final = 5.0  # … or so long after the first of many, …
TRIM_AGAIN_SECONDS: Final = (5.0,) * 6 + (60.0,) * 6  # … and again, each so long after the one before
WAIT_SECONDS_MAX: Final = 3_600.0
PAGE_MAX: Final = 10_000  # entries of a list; the longest (subscribers, all names at their limit) take 8 MB

# One client
CALL_SECONDS: Final = 30.0  # budget of one verb, all its attempts together
CONNECT_SECONDS: Final = 5.0
CONTACT_SECONDS: Final = 1.0  # a look at a server that cannot be reached, to find out why
MEET_SECONDS: Final = 0.5  # for the first connection of a client to come about, before that look
OPERATOR_SECONDS: Final = 60.0  # budget of an operator's call: a move seals a block first
MOVES_MAX: Final = 8  # shards that a plan moves at the same time
PEER_SOCKET_SECONDS: Final = 2.0  # before a node that cannot be reached by WebSocket is tried again, at most
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
JOIN_WORK_CALLS: Final = 1  # takes, or acks, of a group that are on their way; further ones travel together
JOIN_TASKS_MAX: Final = 1_000  # of takes, or of acks, that travel together
ATTEMPT_SECONDS: Final = 10.0  # one attempt of a verb, where there are other servers to ask
PAGE_ENTRIES: Final = 1_000  # of a list, asked for at once
HINTS_MAX: Final = 100_000  # queues whose owner a client remembers
REDIRECTS_MAX: Final = 3  # hints that a read follows without an element in between
HINT_SECONDS: Final = 60.0  # a server that a hint names and that cannot be reached is left alone for so long
CONFIRM_SECONDS: Final = 0.01  # confirmations of a subscriber that are made within this time are sent as one
CREDIT_ELEMENTS: Final = 100_000
SESSION_SECONDS: Final = 60.0  # how long a client's session outlives its connections
SESSION_CHARS_MAX: Final = 128
WORKER_MAX: Final = 10_000  # tasks that one worker handles at a time
WORKER_WAIT_SECONDS: Final = 20.0  # for a task, before a worker asks again
CREDIT_BYTES: Final = 16 * MIB

# One query in SQL
SQL_QUERY_BYTES_MAX: Final = 256 * KIB  # text and parameters
SQL_SECONDS_MAX: Final = 60.0  # on a server; it is a setting
SQL_BYTES_MAX: Final = 1024 * MIB  # memory of DuckDB for one query; a setting, too
SQL_BYTES_MIN: Final = 16 * MIB
# What the process of a query may have beside that: code, what is being read.
SQL_PROCESS_BYTES: Final = 512 * MIB
SQL_QUERIES_MAX: Final = 4  # that a server runs at the same time
SQL_RETRY_SECONDS: Final = 1.0
SQL_NICE: Final = 10  # the process of a query gives way to pushes
SQL_ROWS: Final = 16_384  # of a batch of a result
SQL_BATCH_BYTES: Final = 4 * MIB  # … or fewer rows, if elements are large
SQL_SCAN_ROWS: Final = 131_072  # that are decoded at once
SQL_CONNECTIONS_KEPT: Final = 2  # of DuckDB in a process that asks, for its next queries
SQL_QUEUES_OPEN: Final = 100  # of a cold store, whose lists of blocks are kept between queries
SQL_BLOCKS_TOGETHER: Final = 16  # blocks that are ruled out together, or more where there are many
SQL_TAIL_BYTES: Final = 64 * MIB  # of a tail in memory; a longer one goes to a temporary file
SQL_FRAME_BYTES_MAX: Final = 256 * MIB  # between a server and the process of a query
SQL_TABLE_ROWS_MAX: Final = 10_000  # that a table for people shows: it is laid out in memory
SQL_NAMES_NEAR: Final = 3  # that an error suggests
SQL_BEAT_SECONDS: Final = 5.0  # while a query works, its server says so this often

# One text queue
TEXT_BLOCK_BYTES: Final = 512 * KIB  # read at once; whole items, so a longer item makes a longer block
TEXT_QUIET_SECONDS: Final = 0.1  # the last item is finished when nobody wrote for so long
TEXT_POLL_SECONDS: Final = 0.05  # how often a file is looked at that is being followed
TEXT_TICK_SECONDS: Final = 0.05  # two writes that follow so closely may have the same time of modification
TEXT_EDIT_SECONDS: Final = 2.0  # what changed so shortly before the file was replaced may be missing there
TEXT_DROPPED_SECONDS: Final = 10.0  # a writer has looked by then, and appended again what an editor dropped
TEXT_RECENT_MAX: Final = 1_000  # changes that a process remembers for that
TEXT_ANCHOR_BYTES: Final = 4 * KIB  # before a position; are they the same, then the position is
TEXT_INTENT_BYTES: Final = 4 * KIB  # of an append, kept in the sidecar file to recognise what a crash left

# Keys
# How often a node looks for changes of keys: a revocation holds after so long, and a little.
KEYS_SECONDS: Final = 2.0
KEY_SCOPES_MAX: Final = 16
SIGNATURE_SECONDS: Final = 300  # that a signature may be away from the server's time
# Before one more queue than a key may have is tried again: somebody must delete one.
QUEUE_QUOTA_SECONDS: Final = 60.0
SIGNATURES_MAX: Final = 200_000  # that a node remembers, so that none is taken twice
SIGNED_QUEUES_MAX: Final = 200
LIMITED_QUEUES_MAX: Final = 200

TRACE_LINKS_MAX: Final = 64  # of one span, to the contexts of elements

# Sqew
SQEW_PORT: Final = 8888
SQEW_PAYLOAD_BYTES_MAX: Final = 512 * KIB  # of a message, unless its queue has another limit; more: 413
SQEW_MAX_ATTEMPTS: Final = 5
SQEW_VISIBILITY_MS: Final = 30_000
SQEW_POLL_MS: Final = 20_000  # a poll waits so long for a message, unless it says otherwise
SQEW_POLL_MS_MAX: Final = 30_000
SQEW_DELAY_MS_MAX: Final = 365 * 86_400_000
SQEW_BATCH_MAX: Final = 1_000  # messages of one poll, peek, ack or nack
# Messages of a state that a peek looks at, at least, for the ones available first.
SQEW_LOOK_AHEAD: Final = 100
SQEW_QUEUE_SECONDS: Final = 1.0  # a queue that another node has deleted may be known for so long

# HTTP: one request
HTTP_HEADER_BYTES_MAX: Final = 16 * KIB  # all headers of a request, and its target; more: 431
HTTP_HEADERS_MAX: Final = 100
HTTP_TARGET_BYTES_MAX: Final = 8 * KIB  # path and query; more: 414
HTTP_BODY_BYTES_MAX: Final = MESSAGE_BYTES_MAX  # as a message of gRPC; more: 413, while it is received
# Of a JSON document, which is parsed in one step; NDJSON has no such step.
HTTP_JSON_BYTES_MAX: Final = 1 * MIB
HTTP_REQUEST_BYTES_MAX: Final = 64 * KIB  # of a JSON document beside a push
HTTP_PAGE_ELEMENTS_MAX: Final = 10_000  # elements of a JSON document that is read
HTTP_PAGE_ELEMENTS: Final = 1_000  # … where nobody says how many
HTTP_BUCKETS_MAX: Final = 1_000  # parts of a time, each with its counts
HTTP_PAGE_BYTES: Final = 4 * MIB  # … and about so many bytes
HTTP_PARQUET_BYTES_MAX: Final = 64 * MIB  # of elements or rows in a Parquet file, before they are compressed
IDEMPOTENCY_CHARS_MAX: Final = 255  # of an Idempotency-Key
JSON_DEPTH_MAX: Final = 64  # of objects and arrays in one another
# HTTP: one connection
# From the first byte of a request, or the connection, to the end of its headers.
HTTP_HEADER_SECONDS: Final = 10.0
HTTP_IDLE_SECONDS: Final = 75.0  # a connection without a request is closed
HTTP_BODY_IDLE_SECONDS: Final = 30.0  # a body of which nothing comes for so long …
HTTP_BODY_SECONDS: Final = 300.0  # … or that is not whole after so long ends the connection
HTTP_BODY_BYTES_PER_SECOND: Final = 256 * KIB  # a large object may take so much longer than that
# Bodies that pass by the event loop at a time, each with a thread; others pass through it.
HTTP_DIRECT_MAX: Final = 8
HTTP_DIRECT_BYTES: Final = 1 * MIB  # a body, or a piece of a reply, is worth a thread from this size on
HTTP_LINGER_SECONDS: Final = 2.0  # the rest of a body that was refused is passed over for so long
HTTP_SEND_SECONDS: Final = 60.0  # a client that reads nothing for so long is cut off
# Without an element a stream of events sends a comment, so that it stays open.
HTTP_EVENT_SECONDS: Final = 15.0
LIVE_SECONDS: Final = 1.0  # between two samples of live figures
LIVE_STATUS_SECONDS: Final = (
    2.0  # … and between two questions how the nodes are, which ask the cold store, too
)
LIVE_QUEUES_MAX: Final = 100  # queues that one listener can name
LIVE_SUBSCRIBERS_MAX: Final = 100  # of a queue, that a sample tells of
# HTTP: one server
HTTP_CONNECTIONS_MAX: Final = (
    8_000  # or half of the files that may be open; beyond it the one that is idle for longest makes room
)
HTTP_SPOOLS_MAX: Final = 16  # files without a digest that are received; they are on disk meanwhile
HTTP_INCOMING_BYTES_MAX: Final = 256 * MIB  # of bodies that are being received; more: 429

# The priority socket, /connect/
CONNECT_NOTICES_MAX: Final = 64  # of one post; there are seven
CONNECT_FRAMES_MAX: Final = 64  # of one client that wait their turn; then its socket is not read
CONNECT_FETCHES_MAX: Final = 1_000  # of one client that wait for a message; further ones are refused
# Of one client that are under way; its socket is not read further meanwhile.
CONNECT_REQUESTS_MAX: Final = 256
CONNECT_POSTS_MAX: Final = 256  # of one client that wait to be pushed, …
CONNECT_POST_BYTES: Final = 1 * MIB  # … or bytes of them: its socket is not read further meanwhile
CONNECT_WANTED_MAX: Final = 20_000  # posts of one client whose assign, finish, retry or drop is still awaited
CONNECT_WANTED_TOTAL_MAX: Final = 200_000  # … and of all clients
CONNECT_BUFFER_BYTES: Final = 256 * KIB  # made for one client that has not read it: no more messages for it
CONNECT_BUFFER_BYTES_MAX: Final = 4 * MIB  # … also with notices: the client is cut off
CONNECT_BUFFERS_BYTES: Final = 64 * MIB  # made for all clients: only one message for each from then on
CONNECT_AWAY_MAX: Final = 1_000  # durable sessions without a socket; beyond it the one that left first ends
CONNECT_AWAY_SECONDS: Final = 3_600.0  # a durable session without a socket ends after so long
CONNECT_LARGE_BYTES: Final = 64 * KIB  # a longer frame is decoded and encoded on a thread
CONNECT_IDLE_SECONDS: Final = 10.0  # nobody awaits anything of a queue for so long: its ledger is left alone
CONNECT_KNOWN_SECONDS: Final = 5.0  # that a queue exists is known for so long
CONNECT_ROWS: Final = 1_000  # of a ledger that are looked at in one step of the event loop
CONNECT_EARLY_MAX: Final = 100_000  # transitions that are kept while a post waits for its offset
# WebSocket
WEBSOCKETS_MAX: Final = 6_000  # open at a time; more: 429
# A connection keeps a buffer as large as its largest frame; more: 1009.
WEBSOCKET_FRAME_BYTES_MAX: Final = 1 * MIB
WEBSOCKET_MESSAGE_BYTES_MAX: Final = MESSAGE_BYTES_MAX  # in several frames; as a message of gRPC; more: 1009
WEBSOCKET_FRAGMENTS_MAX: Final = 1_024  # that are held one by one; then they are joined
WEBSOCKET_BUFFER_BYTES: Final = 16 * KIB  # that a client has not read and that are not counted
WEBSOCKET_CALLS_MAX: Final = 1_000  # under way on one connection of /v1/ws; as over gRPC
WEBSOCKET_CALL_BYTES_MAX: Final = 16 * MIB  # … and of their requests; then nothing is read for a while
WEBSOCKET_HEAD_BYTES: Final = 128  # of a call before its request, at most, as our clients make them
# Our client sends larger ones over gRPC.
WEBSOCKET_REQUEST_BYTES_MAX: Final = WEBSOCKET_FRAME_BYTES_MAX - WEBSOCKET_HEAD_BYTES
QUICK_BYTES_MAX: Final = 64 * KIB  # of a request that a blocking client sends in the calling thread
# Its connection is not used again after so long: the server may have asked for it.
QUICK_IDLE_SECONDS: Final = 15.0
PEER_PUSH_BYTES_MAX: Final = WEBSOCKET_MESSAGE_BYTES_MAX - WEBSOCKET_HEAD_BYTES  # between nodes
WEBSOCKET_SILENCE_SECONDS: Final = 5.0  # of nothing at all, and a call without an answer: our client hangs up
WEBSOCKET_REPLY_BYTES_MAX: Final = 17 * MIB  # that our client takes in one frame
WEBSOCKET_LEAVE_SECONDS: Final = 1.0  # for a client to say that it makes no more calls, when the server stops
WEBSOCKET_PING_SECONDS: Final = 20.0  # a client from which nothing comes is asked this often …
WEBSOCKET_PONG_SECONDS: Final = 20.0  # … and is closed if it does not answer for so long

check(STREAM_MESSAGE_PUSHES <= STREAM_PUSHES_MAX, "our own clients would be refused")
check(BATCH_BYTES_MAX < STREAM_BYTES_MAX, "a stream must hold a batch")
check(9 * ERROR_BYTES_MAX < METADATA_BYTES_MAX, "an error must fit into trailers")
check(CLIENT_KEEPALIVE_SECONDS > PING_SECONDS_MIN, "our own clients would be cut off")
check(STREAMS_OPEN_MAX < CALLS_MAX, "streams would leave no room for calls of others")
check(CHANNEL_STREAMS_MAX < STREAMS_MAX, "streams would leave no room for calls")
check(SQL_BEAT_SECONDS < CALL_SECONDS, "clients would give up queries that work")
check(BACKOFF_SECONDS <= BACKOFF_SECONDS_MAX < CALL_SECONDS, "backoff exceeds budget")
check(
    BATCH_BYTES_MAX + STREAM_MESSAGE_BYTES + REQUEST_BYTES_MAX <= MESSAGE_BYTES_MAX,
    "a batch must fit into a message, behind others that were not enough to fill one",
)
check(
    BATCH_BYTES_MAX + REQUEST_BYTES_MAX + WEBSOCKET_HEAD_BYTES <= WEBSOCKET_MESSAGE_BYTES_MAX,
    "what a client may push must fit into a message between nodes",
)
check(HTTP_TARGET_BYTES_MAX < HTTP_HEADER_BYTES_MAX, "a target must fit beside its headers")
check(HTTP_REQUEST_BYTES_MAX <= HTTP_JSON_BYTES_MAX <= HTTP_BODY_BYTES_MAX, "bodies contradict")
check(HTTP_BODY_BYTES_MAX < HTTP_INCOMING_BYTES_MAX, "one body must fit into the budget of all")
check(HTTP_BODY_IDLE_SECONDS <= HTTP_BODY_SECONDS, "waiting for a body contradicts")
check(CHANGE_BYTES_MAX + READ_BATCH_BYTES < MESSAGE_BYTES_MAX, "a full take must fit into a message")
check(PAGE_ENTRIES <= PAGE_MAX, "our own clients would ask for more than they get")
check(TEXT_EDIT_SECONDS < TEXT_DROPPED_SECONDS, "a dropped message would be forgotten before it comes back")
check(TEXT_QUIET_SECONDS < TEXT_EDIT_SECONDS, "a last item would be read before an edit is known")
check(
    CONNECT_BUFFER_BYTES < CONNECT_BUFFER_BYTES_MAX <= CONNECT_BUFFERS_BYTES, "buffers of sockets contradict"
)
check(CONNECT_WANTED_MAX <= CONNECT_WANTED_TOTAL_MAX, "notices contradict")
check(WEBSOCKETS_MAX < HTTP_CONNECTIONS_MAX, "WebSockets would leave no room for requests")
check(WEBSOCKET_FRAME_BYTES_MAX <= WEBSOCKET_MESSAGE_BYTES_MAX, "a frame would be larger than its message")
check(QUICK_IDLE_SECONDS < WEBSOCKET_PING_SECONDS, "pings of a server would have no answer")
check(WEBSOCKET_PONG_SECONDS <= WEBSOCKET_PING_SECONDS, "a client would be asked twice")
check(WEBSOCKET_MESSAGE_BYTES_MAX < WEBSOCKET_CALL_BYTES_MAX, "one request must fit")
check(MESSAGE_BYTES_MAX < WEBSOCKET_REPLY_BYTES_MAX, "our own clients would refuse a reply")
