"""``python -m isolane`` is ``isolane``."""

from isolane.cli import main

main()
