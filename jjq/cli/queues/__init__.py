"""Commands of users, who push and read elements.

    queue        `jjq queue …` and `jjq blocks`: create, list, describe, change, seal, delete
    subscriber   `jjq subscriber …`: create, list, describe, seek, sleep, wake up, delete
    push         `jjq push`: from arguments, a file or standard input; `jjq push-file`: files as elements
    pop          `jjq pop`, `peek`, `tail`, `replay` and `get`
    elements     elements as text, and text as elements
    sql          `jjq sql`: ask in SQL
    sql_output   the rows of a query: tables, CSV, JSON, Arrow, Parquet
    sql_shell    queries typed at a terminal, with history and completion
    pipeline     `jjq pipeline …`: jobs on Spark
    bench        `jjq bench`: how quick a server is

Each file defines the commands and nothing that others need, but for elements and the two of sql.
"""
