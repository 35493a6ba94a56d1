"""Clusters of real processes: kills, elections, exactly once with everything killed in turn."""
