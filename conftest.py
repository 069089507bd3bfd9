"""Settings of all tests."""

import MLRsearch  # noqa: F401 - before all others: it looks at each module that there is, 10 times
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.host_as_before", "tests.live_files", "tests.seconds_by_file"]

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
