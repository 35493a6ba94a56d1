"""View models: what the admin answered, turned into what a screen shows. Nothing here asks."""
