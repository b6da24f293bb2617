"""Reading the segments of a store from outside, with no broker: where they are, what to read of
them, and in which pieces."""
