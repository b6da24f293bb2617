"""Configuration of servers: one table of keys, files, changes at run time."""
