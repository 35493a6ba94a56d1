"""Tests of protocol: messages, frames, record batches, and malformed bytes."""
