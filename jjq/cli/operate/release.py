"""`jjq release`: take a cold store from a single server that is gone; needs no server.

A file of its own: one file for each command.
"""

from __future__ import annotations

from jjq.cli.connection import ColdUrl, Flag, Json, S3Endpoint, S3Region, open_cold_store
from jjq.cli.output import note, print_fields, print_json


def release(
    *,
    cold: ColdUrl,
    accept_loss: Flag = False,
    s3_endpoint: S3Endpoint = None,
    s3_region: S3Region = None,
    json: Json = False,
) -> None:
    """Show which single server holds a cold store. With --accept-loss, let another server have it.

    ```
    jjq release --cold s3://bucket/prefix
    jjq release --cold s3://bucket/prefix --accept-loss
    ```

    A server without --node owns its store alone. It keeps the store when it stops, as long as some elements that it
    acknowledged are only in its data directory. Start it again with that data directory, and nothing is lost. Accept
    the loss only if the data directory is gone for good: the store keeps what it has, and the next server that starts
    goes on there. Queues that may have lost elements then refuse pushes. `jjq queue accept-loss QUEUE` shows the loss
    of a queue, and accepts it with --yes.

    Make sure that the old server does not run. If it runs and can reach the store, this command sees that it is alive,
    and changes nothing. If it cannot reach the store, it goes on acknowledging, and all of that is lost.

    Parameters
    ----------
    accept_loss
        Release the store, after waiting for a sign of life of the old server.
    json
        Print JSON, for programs.
    """
    from coldstore.shared.clock import SystemClock
    from sharding import single_node

    clock = SystemClock()
    store = open_cold_store(cold, s3_endpoint, s3_region, clock)
    holder = single_node.release(store.objects, clock, accept_loss=accept_loss)
    released = accept_loss and holder is not None
    if json:
        print_json({"holder": None if holder is None else str(holder), "released": released})
        return
    state = "had by" if released else "has it"
    print_fields({"store": cold, state: "nobody" if holder is None else str(holder)})
    if holder is not None and not accept_loss:
        note(
            "nothing was changed: start that server again, or give --accept-loss if its data directory is lost"
        )
