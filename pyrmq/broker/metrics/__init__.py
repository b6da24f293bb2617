"""The broker's metrics: what there is, and where its figures come from."""
