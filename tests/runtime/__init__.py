"""Tests of runtime: configuration, daemons, files, and the worker process."""
