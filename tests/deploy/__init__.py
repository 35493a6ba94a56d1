"""Tests of deploy, with daemons that can be told to misbehave."""
