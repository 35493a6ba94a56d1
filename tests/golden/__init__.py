"""Transcripts of the pure machines, read and reviewed as prose (`--rewrite`)."""
