"""A world in a process: an API server, its actors and its faults on virtual time, with the real client and the real controller inside."""
