"""Two runs of one experiment: what changed from the first to the second, and how sure that is.

It reads run folders, and knows nothing of how trials are made.
"""

from isolane.compare.comparing import compare
from isolane.compare.comparison_models import Comparison, Difference, Outcome

__all__ = ["Comparison", "Difference", "Outcome", "compare"]
