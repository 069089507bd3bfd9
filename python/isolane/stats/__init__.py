"""Statistics of trials: medians with intervals, and the measures of isolation.

Pure functions of numbers: nothing here knows about files, trials or routers.
"""
