"""Running a cluster: the root command, launchers, generated files, the doctor and plans."""
