"""Large objects of a server.

    verbs    the verbs of `LargeStore`: begun and finished over gRPC, resumed where they were
    direct   the bytes over HTTP, in threads, where a server has it

Enters: uploads in pieces, ranges to read. Leaves: the same to a server. Invariants: whatever way the bytes take, an
upload goes on at the byte where it was, and an error is the one that gRPC tells.
"""
