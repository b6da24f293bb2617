"""Instructions a message, counted by callgrind: the same on a busy machine."""
