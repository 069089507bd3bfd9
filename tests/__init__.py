"""End-to-end tests: what a user would do, with what a host really does."""
