"""What the console shows of stored messages: reading them, their bodies, what may be done."""
