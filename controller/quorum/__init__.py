"""The controller quorum: who may append to the metadata log."""
