"""Tests of protocol: messages, frames, record batches, and bytes that nobody honest sends."""
