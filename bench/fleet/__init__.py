"""`make bench-fleet`: the controller, and two peers, over a local API server stand-in at growing fleet sizes."""
