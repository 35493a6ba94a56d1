"""The console: screens of a cluster, rendered here, moving while somebody looks.

request -> screens (asks by `asking`, shows by `views`) -> templates -> page, or stream of pages
"""
