"""Tools that change something, a file for each subject. Users and access lists are not among them:
a secret would stand in the conversation."""
