"""Large objects: files, images, models and long values, each stored once under the digest of its bytes.

    notes      which objects no element may name yet, so that only those are ever swept
    upload     one object on its way in: hashed while it passes, in parts, visible when whole and right
    download   ranges of an object, piece by piece; what is missing or damaged is DATA_LOSS by name
    sweep      removes uploads that nobody named within the grace period

Enters: pieces of bytes and the digest that they must have. Leaves: `queues/<name>/objects/<sha256>`, which never
changes again. Invariants: an object that is there is whole; one that a durable element names is never removed, as its
note is gone or is looked at together with all elements since it was written; memory holds some parts, never an object.
"""
