"""Tests of security: pure machines, both ends in one process."""
