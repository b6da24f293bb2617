"""Tools shared by all tests: server process, independent wire codec, blocking client."""
