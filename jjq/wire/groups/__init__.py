"""Worker groups on the wire: the values of hotstore.groups to messages, and back.

    group_messages   groups, their settings and statistics, and tasks that are looked at
    task_messages    takes, changes of tasks and their outcomes, and the requests of a Work stream
    tasks_at         the tasks of a group at a time, as a table in parts

Values enter and messages leave, and the other way round. Batches of tasks are columns of numbers on both sides:
nothing here makes an object for each task, but for tasks that are listed one by one.

A room of its own: hotstore.groups is imported here, which Spark, a user of the other files of jjq.wire, must not.
"""
