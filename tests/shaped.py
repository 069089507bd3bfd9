"""Routers behind shapers of a known rate, for searches."""

SHAPED = """\
isolane: 1
name: shaped
traffic: {frame_size: 64, flows: 10}
routers: [{name: one, path: isolane}]
load: {one: 1kpps}
arms:
  - {name: frames, path: isolane, policy: {one: {rate_max: 100kpps}}}
  - {name: bits, path: isolane, policy: {one: {rate_max: 20Mbps}}}
"""
FRAMES_PPS = 100e3
BITS_PPS = 20e6 / (8 * (64 + 20))
"""A link carries preamble and gap with each frame, 20 bytes."""
LIMITS = {"frames": FRAMES_PPS, "bits": BITS_PPS}
