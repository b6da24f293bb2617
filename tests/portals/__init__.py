"""The clients for threads and asyncio, and the testing kit."""
