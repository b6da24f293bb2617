"""`pyrmq bench peers`: several message brokers on one machine, measured in turns."""
