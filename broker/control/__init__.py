"""The broker's side of the controller: registration, heartbeats, forwarded requests, metadata.

Owns the connection to the active controller and the metadata image. It never touches a log, but
passes each delta of the metadata to the partitions.
"""
