"""Running a cluster: the local launcher and the root command."""
