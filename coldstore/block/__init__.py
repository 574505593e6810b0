"""One block: its Parquet form, and its file on object storage."""
