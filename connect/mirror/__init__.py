"""MirrorMaker 2: topics, offsets of groups and heartbeats of one cluster, kept in another.

Names of topics, bytes of records and keys of the configuration are those of Apache Kafka's
connect/mirror (KIP-382, 545, 597, 656, 690, 716), so that either may follow the other.
"""
