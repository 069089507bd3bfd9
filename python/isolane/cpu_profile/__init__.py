"""Where the processor goes: what is made of sampled stacks. Pure; ``report`` draws it."""
