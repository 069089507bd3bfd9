"""One trial: what it is asked for, how it is made, live or simulated, and what it observes.

Imports `results`, and what builds and manages routers (`testbed`, `enforce`, `guests`, ...).
"""
