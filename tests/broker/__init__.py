"""Tests of broker: its pure rules with simple models, the rest without a network, over fakes."""
