"""Kill -9 against a real server process: every acknowledged message is read back."""
