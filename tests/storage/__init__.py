"""Tests of storage over real files, with faults of the file system."""
