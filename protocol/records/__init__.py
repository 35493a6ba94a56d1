"""RecordBatch v2: the header, the records, and the two codecs that read and write them.

Pure: bytes in, values out.
"""
