"""The client alone, against scripted servers in the same process."""
