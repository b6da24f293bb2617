"""`python -m pyrmq`: the command line."""

from pyrmq.cli import main

main()
