"""Settings of all tests."""

from hypothesis import settings

pytest_plugins = ["tests.host_as_before"]

# How long an example takes says something about the machine's other work, not about the code.
settings.register_profile("isolane", deadline=None)
settings.load_profile("isolane")
