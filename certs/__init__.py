"""The webhook's certificate: a self-made authority, where it is kept, how it reaches the API server, and when it is renewed."""
