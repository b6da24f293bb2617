"""Users, access lists, and the check before requests."""
