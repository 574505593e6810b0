"""Work through a queue with several workers: python examples/worker.py [HOST:PORT]

A worker group hands each element to one worker at a time, until it is done. A handler that raises gives its task back;
after three attempts the task is buried, and stays so until somebody kicks it. The queue itself is never changed:
subscribers and other groups see every element as before.
"""

from __future__ import annotations

import json
import sys
import threading

import jjq

server = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7575"
finished = threading.Event()
sent: list[str] = []


def send(task: jjq.Task) -> None:
    mail = json.loads(task.value)
    if mail["to"] == "nobody":
        raise ValueError("no such address")
    if mail["to"] == "bob" and task.attempt == 1:
        raise TimeoutError("the server of bob is slow")
    sent.append(mail["to"])
    if len(sent) == 100:
        finished.set()


with jjq.connect(server) as client:
    client.create_queue("mails", content="json")
    group = client.create_group("mails", "senders", max_attempts=3, backoff=(0.05, 2.0), ttr=30.0)
    people = [*(f"person-{n}" for n in range(99)), "bob", "nobody"]
    client.push("mails", [json.dumps({"to": name}) for name in people])

    with client.work(group, send, concurrency=8):
        finished.wait(60)
        while client.get_group(group).tasks["buried"] == 0:
            finished.wait(0.01)

    (buried,) = client.tasks(group, "buried")
    print(f"{len(sent)} mails were sent, to bob as well: {'bob' in sent}")
    print(f"task {buried.id} is buried after {buried.attempt} attempts: {buried.reason}")
    print(f"attempts in the ledger: {client.statistics(group).calls['take']}")
