"""The metadata state machine: decisions as records, changed only by replay."""
