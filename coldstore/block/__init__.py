"""One block: elements with dense offsets in one Parquet file.

    draft    elements about to become a block, checked
    encode   a draft as Parquet: the same elements give the same bytes; row groups are encoded in parallel
             (parquet_stitch puts them into one file, thrift reads and writes its footer)
    fetch    a data file from object storage, in parallel ranges, with its sha256
    read     rows and columns of a data file
    files    all files of one queue, one by one, each with every check that a single file allows

Enters: Arrow tables, keys. Leaves: Arrow tables, checked bytes; `DataLoss` that names block and key.
Invariants: size and sha256 are compared before anything is parsed; nothing here deletes or overwrites.
"""
