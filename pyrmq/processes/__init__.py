"""Several broker processes of one cluster on one machine: which they are, who keeps them."""
