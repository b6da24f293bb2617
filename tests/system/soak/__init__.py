"""A broker under every kind of load for minutes, stopped and killed in between: `make soak`."""
