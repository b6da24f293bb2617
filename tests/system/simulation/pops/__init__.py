"""POP consumers and timer messages under every order of events that a seed makes.

Real broker parts over a real store, on a clock that jumps; connections, the disk and the members of
the groups are the simulation's. `runs.py` says what must hold.
"""
