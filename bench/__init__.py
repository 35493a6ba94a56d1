"""The benchmark harness: ratios against ceilings and floors of the same run. Nothing asserts."""
