"""Tests of Connect."""
