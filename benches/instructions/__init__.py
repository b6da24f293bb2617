"""Instructions that the engine executes for each message, counted by callgrind: the same on a busy machine."""
