"""Tests of the faces of a cluster in the browser."""
