"""Workers that are killed, and a server that is: is every task done exactly once, and none handed out after its ack?

worker   a process with several callers that take and ack; it writes down what it was told
run      one server, some such processes, a producer, and kill -9 of either now and then
judge    what the ledger and the workers' notes must agree on
"""
