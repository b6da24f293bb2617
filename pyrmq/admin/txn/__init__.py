"""Transactions as operators see them: finding what is pending, and deciding it."""
