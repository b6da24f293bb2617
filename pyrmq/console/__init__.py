"""The web console: pages over Admin, for operators. Needs the extra `console`."""
