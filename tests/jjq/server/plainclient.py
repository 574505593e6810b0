"""A client with nothing of jjq in it: the generated stubs, grpcio and protobuf.

Run as `python plainclient.py HOST:PORT` beside the modules `plain_pb2` and `plain_pb2_grpc`, which
protoc made of jjq.proto alone. Prints what it saw as one line of JSON.
"""

import json
import queue
import sys


def main(address: str) -> dict[str, object]:
    import grpc
    import plain_pb2 as pb  # type: ignore[import-not-found]
    import plain_pb2_grpc  # type: ignore[import-not-found]

    seen: dict[str, object] = {}
    with grpc.insecure_channel(address) as channel:
        jjq = plain_pb2_grpc.JjqStub(channel)
        jjq.CreateQueue(pb.CreateQueueRequest(name="orders", content=pb.CONTENT_JSON))
        subscriber = jjq.CreateSubscriber(
            pb.CreateSubscriberRequest(queue="orders", name="billing", start="beginning")
        ).subscriber
        elements = [pb.Element(value=b'{"n":%d}' % n, key=b"k", headers={"h": b"v"}) for n in range(5)]
        request = pb.PushRequest(queue="orders", elements=pb.Elements(elements=elements))
        seen["receipt"] = [jjq.Push(request).receipt.first_offset, jjq.Push(request).receipt.first_offset]

        stream = (
            pb.PushRequest(
                queue="orders", producer="p", sequence=n, elements=pb.Elements(elements=elements[:1])
            )
            for n in range(3)
        )
        results = [result for reply in jjq.PushStream(stream) for result in reply.results]
        seen["streamed"] = [result.receipt.first_offset for result in results]

        popped = jjq.Pop(pb.PopRequest(subscriber=subscriber.id, max=4, wait_seconds=1))
        seen["popped"] = [e.value.decode() for e in popped.elements.elements]
        seen["keys"] = sorted({e.key.decode() for e in popped.elements.elements})
        seen["headers"] = dict(popped.elements.elements[0].headers) == {"h": b"v"}

        audit = jjq.CreateSubscriber(
            pb.CreateSubscriberRequest(queue="orders", name="audit", start="beginning")
        ).subscriber
        pops = [
            pb.NumberedPop(id=n, pop=pb.PopRequest(subscriber=name, max=3))
            for n, name in ((7, audit.id), (8, "orders/nobody"))
        ]
        answers = [
            r for reply in jjq.PopStream(iter([pb.PopStreamRequest(pops=pops)])) for r in reply.results
        ]
        found = {r.id: [e.offset for e in r.popped.elements.elements] or r.error.kind for r in answers}
        seen["streamed pops"] = [found[7], pb.ErrorKind.Name(found[8])]

        replayed = jjq.Read(pb.ReadRequest(queue="orders", start="offset:3", end="last:2"))
        seen["replayed"] = [e.offset for reply in replayed for e in reply.elements.elements]

        requests: queue.SimpleQueue[object] = queue.SimpleQueue()
        start = pb.SubscribeStart(subscriber=subscriber.id, credit=pb.Credit(elements=2))
        requests.put(pb.SubscribeRequest(start=start))
        deliveries = jjq.Subscribe(iter(requests.get, None))
        delivered: list[int] = []
        for reply in deliveries:
            delivered += [e.offset for e in reply.elements.elements]
            if reply.confirmed == 6:
                break
            if reply.next == 6:
                requests.put(pb.SubscribeRequest(confirm=pb.Confirmation(offset=6)))
        requests.put(None)
        seen["delivered"] = delivered
        deliveries.cancel()
        try:
            jjq.Pop(pb.PopRequest(subscriber="orders/nobody"))
        except grpc.RpcError as error:
            seen["error"] = error.code().name
    foreign = {name.split(".")[0] for name in sys.modules} & {"jjq", "hotstore", "coldstore", "pyarrow"}
    return seen | {"foreign": sorted(foreign)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
