"""Transactions of the broker."""
