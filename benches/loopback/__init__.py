"""The loopback benchmark: a running broker under load from `benches/loadgen`.

`python -m benches.loopback` runs every scenario against servers that it starts itself and prints
each figure beside the target the project set. What it measures above all is the broker's CPU time
per message, kernel time included: with the generator on the same machine, messages per second say
more about the number of cores than about the broker.
"""
