"""One trial: what it is asked for, how it is made, live or simulated, and what it observes.

It imports ``results`` and what builds and manages routers (``testbed``, ``enforce``, ``guests``,
``external``, ``web``). ``run`` asks it for trials; so do ``verify``, ``reproduce``, ``calibrate``.
"""
