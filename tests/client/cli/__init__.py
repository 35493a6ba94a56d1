"""Tests of the commands: arguments in, exit code and texts out, over an admin in memory."""
