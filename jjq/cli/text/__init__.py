"""Commands for text queues: files that people can read and edit.

    files      `jjq text list`, `append`, `done`, `error` and `set`: one file, without a server
    work       `jjq text work FILE -- COMMAND`: run a command for each message; all these commands put together
    transfer   `jjq text import` and `export`: between a file and a queue of a server

A file enters, and leaves with a byte changed or an item more.
"""
