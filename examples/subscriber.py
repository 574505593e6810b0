"""Handle events as they come: python examples/subscriber.py [HOST:PORT [HOW-MANY]]

An event counts as handled when the next one is asked for. Stop the program whenever you like: started
again, it goes on where it was, and only what was not yet confirmed comes a second time.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

import jjq

server = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7575"
how_many = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000

pages: Counter[str] = Counter()
with jjq.connect(server) as client:
    client.create_queue("clicks", content="json")
    statistics = client.create_subscriber("clicks", name="statistics", start="beginning")
    with client.subscribe(statistics) as subscription:
        for element in subscription:
            pages[json.loads(element.value)["page"]] += 1
            if pages.total() == how_many:
                subscription.confirm()  # the last one, too
                break
    behind = client.get_subscriber(statistics).lag

for page, count in pages.most_common(3):
    print(f"{page}: {count} clicks")
print(f"{behind} events are waiting")
