"""CPU of clients for each message, with the broker in another process."""
