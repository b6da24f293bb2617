"""The loopback benchmark: a running broker under load from `pyrmq bench`.

`python -m benches.loopback` runs every scenario against servers that it starts itself and prints
each figure beside the target the project set. With the generator on the same machine, messages per
second say more about the number of cores than about the broker, so two things count: the broker's
CPU time per message, kernel time included, and what it does beside the floor, which is the least
that a broker can do, measured in turns with it.
"""
