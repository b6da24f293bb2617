"""What pages show, as values: read through Admin, without templates and requests."""
