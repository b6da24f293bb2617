"""Row for row: what is read from raw segments is what consumers receive.

Stores that our broker and Apache RocketMQ's own one wrote are read in every way there is and
compared with what a pull of all queues gave. See README.md.
"""
