"""The console: pages about a cluster, rendered on the server and updated while they are open.

request -> screens (asks by `asking`, shows by `views`) -> templates -> page, or stream of pages
"""
