"""Converters: keys, values and headers of records between bytes and Connect's values."""
