"""Tests of storage over real files, with faults where a test wants one."""
