"""The broker's side of the controller: registration, heartbeats, forwarded requests, metadata.

This package owns the connection to the active controller and the metadata image. It passes each
delta of the metadata to the partitions, which change their logs.
"""
