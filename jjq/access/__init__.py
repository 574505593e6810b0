"""Who may do what: keys with scopes, the same for gRPC, HTTP and WebSockets.

    keys         a key, its scopes, and what they allow
    document     the keys as one document on the object store
    keyring      the keys as this node knows them: read now and then, checked, created, revoked
    service      jjq.v1.Keys: the keys over gRPC
    quotas       how much a key may push
    signatures   pushes that show that their sender knows a queue's secret
    audit        acts of administrators, pushed to a queue
    calls        which right each method of gRPC needs, and on which queue

Without any key everything is open. From the first key on, nothing is open but health: gRPC asks `calls`, HTTP asks the
right of its route (jjq/http/access.py), and nodes show each other a key of their own.

Invariants:
- The secret of a key is nowhere but with its owner: the document has its SHA-256, logs and errors have its id at most.
- Secrets are compared in constant time.
- A revocation ends calls that wait and streams that run, on every node, within `KEYS_SECONDS` and a little.
"""
