"""The audit: the leader of its topic writes what changed in the cluster, in a chain of hashes.

Every broker has the audited requests in its metadata image. The log of the topic says which of
them are written, so that a new leader goes on where the old one ended. It knows nothing of sockets.
"""
