"""The client: the verbs, once, for asyncio; jjq/blocking.py puts a blocking shell around them.

    client               `AsyncClient`, public as `jjq.aio.Client`: checks arguments and asks a `Store`
    administration       its verbs for operators of queues and servers
    payload              values, keys and headers as a record batch
    element_json         an element as JSON, for the command line
    producer             `AsyncProducer`: single pushes become batches, each written once and in order
    batcher              the pushes of a producer that wait, in batches; used by any thread
    push_future          what a producer returns for each push
    resumable_pop        a pop that is repeated after a lost answer, and skips nothing
    subscription         `AsyncSubscription`: elements as they come, confirmed as the consumer goes on
    local_subscription   the deliveries of a subscription over a store in this process
    large/               files as elements, and the objects of elements as files
    replay               `AsyncReplay`: elements of a range, one by one or as batches
    sql_result           `AsyncSqlResult`: the rows of a query
    loop_thread          the event loop in a thread of its own, for blocking programs
    blocking_results     what blocking verbs return and people iterate over: replays, rows of queries, workers
    blocking_operator    the operator of a cluster, for the command line

Values, keys and headers of users enter; a `Store` gets record batches and `Push` values. Elements, receipts and
the eight kinds of errors leave.

Invariants:
- The store may be of any kind: in this process, or remote. Nothing here knows gRPC but blocking_operator.
- A batch of a producer keeps its producer and sequence for all attempts, so it is written once.
- An element counts as handled when the consumer asks for the next one, or confirms.
- All but batcher and push_future run on one event loop.
"""
