"""The store: formats on disk, reading, recovery, limits."""
