"""Records what Apache RocketMQ answers where access control is on.

`python -m tests.system.interop.access` starts Apache's servers, sends every request with each kind
of credentials, and writes the answers to tests/support/data.
"""
