"""Tools that change nothing, a file for each subject."""
