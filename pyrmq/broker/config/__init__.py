"""The broker's configuration: its keys, and what is changed while it runs."""
