"""Routers that are there already, on interfaces that are the user's."""
