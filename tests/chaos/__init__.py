"""Real processes in network namespaces under real faults, as root (`make chaos`)."""
