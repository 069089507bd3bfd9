"""Web requests: the client that sends them at exact times, and what became of them."""
