"""The commands of Connect: workers, and what is asked of them through their REST API."""
