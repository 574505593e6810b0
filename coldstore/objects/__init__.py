"""Object stores: seven verbs, and what implements them.

    port         `ObjectStore`: get, put, put_if_absent, put_if_match, list, head, delete
    parts        `PartStore`: the same stores, for an object in parts
    memory       in this process, for tests and for trying things out
    local        files of a folder; local_files does the careful steps (links, sync, direct I/O)
    s3           a bucket; s3_requests sends one request, s3_errors says what its failure means
    listing      listing in the order of whole keys, whatever order a store has
    retry        attempts with pauses, within a budget of time
    swap         read, change, compare-and-swap: how shared documents are changed
    cache        local copies of data files, for stores that are far away
    object_reader  an object as a file that libraries can read
    settings     how to reach S3
    open         from a URL to a store
    selftest     proves at start that conditional writes hold

Enters: keys that `layout.paths` allows, bytes. Leaves: bytes with the etag of the version they were read
from; errors of `shared.errors`. Invariants: a put is durable when it returns; of many conditional writers
exactly one wins; a put whose reply was lost never loses against itself.
"""
