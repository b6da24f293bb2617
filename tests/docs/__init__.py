"""The Python blocks of the documentation, and the programs in examples/: what is shown runs."""
