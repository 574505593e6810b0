"""Words and small mechanisms of the whole product.

    errors         the eight kinds of error, and `check` for invariants
    limits         every limit of the cold store and the wire, with relations checked at import
    clock, chance  time and randomness, passed in; a real one and one for tests each
    failpoint      named points at which a test may kill the process
    batch          elements as Arrow record batches: check a payload, stamp it, take it apart
    push           one push: a batch, and how it is to be written
    headers        the headers of a batch: reserved names, nulls, sizes
    json_text      checks that values are JSON, a step at a time; long ones too
    lists          Python lists as Arrow columns, without loading pandas; columns of nulls that take no memory
    attachments    large objects and references that elements name: headers as values
    results        what verbs answer: receipts, positions, queue and block descriptions
    backoff        how long to pause between attempts
    deadline       what to raise when time runs out, and how to tell those who wait
    single_flight  many wait for one load
    bounded_dict   a dictionary that forgets its oldest entries

The fifth mechanism, `swap` (read, change, compare-and-swap), is in `objects/`, since it needs that port.

Enters: nothing; these modules import each other only. Leaves: values and small objects without I/O.
Invariants: time and chance come from here alone; a limit is defined once; an error says what happened and
what to do.
"""
