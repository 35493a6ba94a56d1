"""The tests: a folder for each room of the product, and folders for what no room has alone."""
