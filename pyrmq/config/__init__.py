"""Configuration of servers: one table of keys, files, environment, changes at run time."""
