"""Replication: the roles of a broker, its HA port, and how a slave follows its master."""
