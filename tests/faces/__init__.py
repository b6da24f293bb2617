"""The faces of the client for plain code and asyncio, and the testing kit."""
