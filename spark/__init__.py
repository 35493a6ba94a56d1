"""PySpark source and sink over the Python Data Source API."""
