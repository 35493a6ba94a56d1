"""Files for those who watch a cluster: a scrape config, alerts, a dashboard."""
