"""Tests of broker: the pure rules on labs, the rest without a network on fakes of its edge."""
