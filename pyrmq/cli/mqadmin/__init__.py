"""`pyrmq mqadmin <command>`: the names, options and columns of RocketMQ's own mqadmin.

A file for each kind of command. `table.py` names all commands, `options.py` reads the command line,
`run.py` runs a command, `output.py` and `text.py` print as the original does. What is asked of
servers is in `pyrmq.admin`.
"""
