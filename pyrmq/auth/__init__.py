"""Who may do what: users, access lists and the check before each request."""
