"""Tests of controller: its decisions without log or clock, its quorum in a model of voters."""
