"""Transactional producers: half messages, local transactions, answers to back-checks."""
