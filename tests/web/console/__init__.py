"""Tests of the console: its views, its door, its screens against a cluster."""
