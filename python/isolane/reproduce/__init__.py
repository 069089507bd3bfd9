"""Published experiments, simulated and put beside what was published."""
