"""The admin: what is asked of a cluster and changed in it; its two faces, asyncio and ordinary."""
