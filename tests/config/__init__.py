"""Configuration keys: files, environment, updates."""
