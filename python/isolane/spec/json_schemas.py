"""The JSON Schemas of experiment, policy and back-end files, for editors that complete and check.

``make schema`` renews the copies in the repository (:mod:`isolane.spec.__main__`).
"""

from __future__ import annotations

import json
from typing import Any

from isolane.spec.base import SpecModel
from isolane.spec.descriptions import describe_keys
from isolane.spec.experiment import Experiment
from isolane.spec.netback_models import NetbackFile
from isolane.spec.policy_models import PolicyFile


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of experiment files.

    It says what a value looks like; what several values mean together (see
    :mod:`isolane.spec.checks`) is beyond it.
    """
    about = "An experiment with virtual routers on one host: isolane run FILE"
    return _schema(Experiment, "Isolane experiment", about)


def policy_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of policy files."""
    about = "The rates, weights and cores of each virtual router of a host: isolane apply FILE"
    return _schema(PolicyFile, "Isolane policy", about)


def schema_text() -> str:
    """Return the schema of experiment files as the text of a file."""
    return _text(json_schema())


def policy_schema_text() -> str:
    """Return the schema of policy files as the text of a file."""
    return _text(policy_schema())


def netback_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of network back-ends' files."""
    about = "A network back-end for virtual machines: isolane netback start FILE"
    return _schema(NetbackFile, "Isolane network back-end", about)


def netback_schema_text() -> str:
    """Return the schema of network back-ends' files as the text of a file."""
    return _text(netback_schema())


def _schema(model: type[SpecModel], title: str, about: str) -> dict[str, Any]:
    describe_keys()
    schema = model.model_json_schema(by_alias=True, mode="validation")
    schema |= {"title": title, "description": about}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
