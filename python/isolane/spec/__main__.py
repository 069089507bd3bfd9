"""``python -m isolane.spec`` prints the JSON Schema of experiment files."""

from __future__ import annotations

import sys

from isolane.spec.schema import schema_text

if __name__ == "__main__":
    sys.stdout.write(schema_text())
