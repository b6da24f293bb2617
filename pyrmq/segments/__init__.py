"""Reading the segments of a store from outside, with no broker: where they are, what to read of
them, and by which tasks.

This package speaks of the parameters of `pyrmq.scan`; errors name them as `pyrmq.errors.Parameter`.
"""
