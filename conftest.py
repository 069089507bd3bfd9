"""Settings of all tests."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.host_as_before", "tests.seconds_by_file"]

# How long examples take says something about the machine's other work, not about the code; and each
# run is to try the same ones.
settings.register_profile(
    "isolane",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("isolane")
