"""``python -m isolane.spec [policy]`` prints the JSON Schema of experiment or policy files."""

from __future__ import annotations

import sys

from isolane.spec.json_schemas import policy_schema_text, schema_text

if __name__ == "__main__":
    policy = sys.argv[1:] == ["policy"]
    sys.stdout.write(policy_schema_text() if policy else schema_text())
