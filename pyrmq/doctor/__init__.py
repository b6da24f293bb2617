"""`pyrmq doctor`: whether a machine, its settings and its cluster suit a broker or a name server.

`facts.py` has what can be read, as plain values. The files of checks turn facts into findings and
read nothing themselves. `table.py` lists the checks. `machine.py`, `sockets.py`, `disk_facts.py`,
`server.py` and `cluster_facts.py` read the facts.
"""
