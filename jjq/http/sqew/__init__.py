"""Sqew's own interface, at its own paths: a small message queue for people who know that one.

    catalogue   the queues of Sqew: each is a queue of JSON with one worker group
    queues      routes of queues: create, list, show, delete, statistics, compact
    documents   the JSON of messages, as types
    messages    routes of messages: enqueue, poll, ack, nack, peek, purge, requeue

Each message is an element, and a task of the group. Requests enter and documents leave as Sqew has them: ids from 1,
times in milliseconds, errors as plain text (`plain_errors` of a route). All else is that of other routes: keys,
quotas, limits.

Invariants:
- The group decides which message is next and how often it failed; nothing is kept here but a short memory of names.
- An id is the offset of an element and one more, so it names a message for ever.
"""
