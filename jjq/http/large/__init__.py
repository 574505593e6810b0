"""Large objects over HTTP: bytes in, bytes out, never whole in memory.

    reading   the object of an element: GET and HEAD, ranges, headers that no browser misunderstands
    sending   a file or a reference in one request, an object by its digest, and uploads that can be cut and go on

Enters: bodies of requests, as they come. Leaves: the verbs of `hotstore.large.port.LargeStore`, and pushes that name
what was stored. Invariants: memory holds some pieces of each request; what a browser gets here it neither guesses at
nor runs; an answer that is not as its digest says is cut before its last byte.
"""
