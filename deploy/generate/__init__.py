"""Files for monitoring a cluster: a scrape config, alerts, a dashboard."""
