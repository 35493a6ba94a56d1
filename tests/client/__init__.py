"""Tests of client against brokers in this process that can be made to misbehave."""
