"""View models: turn what the admin returned into what a screen shows. No module here does I/O."""
