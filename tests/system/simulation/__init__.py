"""Transactions under every order of events: a broker, its producers and its disk in one process.

`simulation` runs one seed on a clock that jumps from event to event; all that is random comes from
the seed. `broker` is the broker without sockets, `images` what a kill leaves of its folder,
`producer` a client, `model` what must hold, `audit` looks at the log at the end. A seed that failed
is run again, with everything that happened:

    PYRMQ_SIM_SEED=4711 pytest tests/system/simulation -k replay -s
"""
