"""System calls that fail on purpose, under a store and under the broker's configuration files."""
