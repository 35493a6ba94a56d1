"""Tests of MirrorMaker 2 on the worker of this project."""
