"""`pyrmq mqadmin <command>`: the names, options and columns of RocketMQ's own mqadmin.

A file for each kind of command. `run.py` names all commands and runs one, `options.py` reads the
command line, `output.py` and `text.py` print as the original does. What is asked of
servers is in `pyrmq.admin`.
"""
