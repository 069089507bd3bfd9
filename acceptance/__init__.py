"""Does the product keep its promises here, today? ``make acceptance``; docs/acceptance.md.

All that depends on how fast this machine is now: shares, rates, delays, agreement of the CPU
accountant with the kernel, what ``isolane verify`` finds and finds out. Each promise is measured
again and again until it is decided, by the same test as the promises of a policy.
"""
