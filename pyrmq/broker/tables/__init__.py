"""Tables of the broker: topics, groups, offsets, clients, locks, filters, and their files."""
