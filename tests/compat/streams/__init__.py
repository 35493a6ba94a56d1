"""Applications of stream processing libraries; they run in environments of their own."""
