"""Routers behind shapers of a known rate, for searches.

A shaper's bucket lets its burst through before it limits, which hides an overload of that size; a
window of 4 s makes 10 ms of burst a quarter of a percent.
"""

SHAPED = """\
isolane: 1
name: shaped
traffic: {frame_size: 64, flows: 10}
routers: [{name: one, path: isolane}]
load: {one: 1kpps}
arms:
  - {name: frames, path: isolane, policy: {one: {rate_max: 100kpps}}}
  - {name: bits, path: isolane, policy: {one: {rate_max: 20Mbps}}}
trial: {warmup: 100ms}
"""
FRAMES_PPS = 100e3
BITS_PPS = 20e6 / (8 * (64 + 20))
"""A link carries preamble and gap with each frame, 20 bytes."""
LIMITS = {"frames": FRAMES_PPS, "bits": BITS_PPS}
LONG = ("--duration", "4s", "--duration-sum", "4s")
