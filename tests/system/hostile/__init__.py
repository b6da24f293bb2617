"""Bad input against a real server process: right answer or a lost connection, nothing else."""
