"""`pyrmq mcp`: the administration of a cluster as tools for assistants, over MCP.

`server.py` answers the protocol, with the official SDK; no other package of pyrmq knows it.
`tools/` has what only reads, `changes/` what changes something. A change is planned first and done
by a second call (`plans.py`, `confirming.py`). `shown.py` makes results: bounded, without secrets,
and marked as data of others.
"""
