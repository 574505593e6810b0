"""Large objects as a client sees them: files in, files out.

    sending   what is to be uploaded (a path, a file, a value), hashed once; sent, and resumed where it was cut off
    reading   the object of an element: read, save, open; checked against its digest when all of it was read
    verbs     push_file, push_reference, and values of a push that are too large to be values

Enters: paths, files and values of users; elements that name objects. Leaves: uploads and downloads by the verbs of
`hotstore.large.port.LargeStore`, here or at a server. Invariants: nobody downloads what nobody reads; memory holds some
pieces, unless the user asks for all bytes; what does not have its digest is never given out as whole.
"""
