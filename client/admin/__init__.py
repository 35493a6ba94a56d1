"""The admin client: queries about a cluster and changes of it, for asyncio and synchronous code."""
