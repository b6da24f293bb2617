"""Damaged images of stores: torn tails and flipped bits, opened in worker processes."""
