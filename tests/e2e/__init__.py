"""End-to-end tests through the interfaces that users have: client, wire, command line."""
