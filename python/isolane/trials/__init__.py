"""One trial: what it is asked for, how it is made, live or simulated, and what it observes.

It imports ``spec``, ``results`` and what builds, manages and samples routers (``testbed``,
``enforce``, ``guests``, ``external``, ``web``, ``cpu_profile``). ``run`` asks it for trials; so do
``verify``, ``reproduce``, ``calibrate`` and the commands ``generate`` and ``receive``.
"""
