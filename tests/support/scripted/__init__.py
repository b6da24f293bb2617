"""Brokers and name servers that do as a test says: one script, on sockets or on streams in memory.

script     what is answered to which request code, and what was asked
lists      queues of records, and the answers to reads of them
broker     a broker with transactions, as `pyrmq admin txn` sees it
cluster    name server and brokers behind one port, as Spark sees them
streams    name server and brokers on streams in memory, for clients on trio
groups     the same with consumer groups: queues, members, offsets and locks
pops       the same with POP: invisible times, acknowledgements, retry topics
slaves     one of those with a slave
sockets    a script on a loopback port, for blocking clients
"""
