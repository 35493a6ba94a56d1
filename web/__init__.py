"""Web: the console, which shows a cluster in the browser and reaches it as any client does."""
