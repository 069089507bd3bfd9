"""The JSON Schema of experiment files, for editors that complete and check while one types.

``python -m isolane.spec > schema/experiment.json`` renews the copy in the repository.
"""

from __future__ import annotations

import json
from typing import Any

from isolane.spec.experiment import Experiment


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of experiment files.

    It says what a value looks like; what several values mean together (see
    :mod:`isolane.spec.checks`) is beyond it.
    """
    schema = Experiment.model_json_schema(by_alias=True, mode="validation")
    schema["title"] = "Isolane experiment"
    schema["description"] = "An experiment with virtual routers on one host: isolane run FILE"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
