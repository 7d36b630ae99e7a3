"""The OpenAPI description of the API, from the table of verbs."""

from __future__ import annotations

from typing import Any

from tacit import __version__
from tacit.custodian.messages import BYTES, JSON, STATUS, VERBS, VERSION, Verb

_ERROR = {"$ref": "#/components/schemas/Error"}
_REFUSALS = {
    "400": "The question cannot be answered as it is asked.",
    "401": "There is no valid token.",
    "402": "The budget or the allowance does not cover it.",
    "403": "The policy does not allow it.",
    "404": "There is no such verb.",
    "408": "The body did not arrive in time.",
    "409": "The name stands for another question, or for later answers.",
    "413": "The body is too long.",
    "415": "The body has another type.",
    "429": "Too many requests.",
    "503": "The data set is stopped, or its source or ledger cannot be used now.",
}
assert {str(status) for status in STATUS.values()} <= set(_REFUSALS)


def description() -> dict[str, Any]:
    """The API as OpenAPI 3.1."""
    free: dict[str, Any] = {"security": []}
    health = _object({"status": {"type": "string"}})
    listed = _object(
        {"account": {"type": "string"}, "datasets": {"type": "array", "items": {"type": "string"}}}
    )
    found: dict[str, Any] = {"type": "object"}
    paths: dict[str, Any] = {
        f"/api/{VERSION}/openapi.json": {
            "get": {"summary": "This description.", **free, "responses": _answers(found)}
        },
        f"/api/{VERSION}/health": {
            "get": {"summary": "Whether the server runs.", **free, "responses": _answers(health)}
        },
        f"/api/{VERSION}/datasets": {
            "get": {
                "summary": "The data sets that this account may ask.",
                "responses": _answers(listed, "401", "429"),
            }
        },
    }
    for name, verb in VERBS.items():
        paths[f"/api/{VERSION}/datasets/{{dataset}}/{name}"] = {"post": _operation(name, verb)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tacit: a custodian's server", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Error": _object(
                    {
                        "error": {"type": "string", "description": "The class in tacit.errors."},
                        "message": {"type": "string"},
                        "facts": {"type": "object"},
                    }
                )
            },
        },
    }


def _operation(name: str, verb: Verb) -> dict[str, Any]:
    content = {JSON: {"schema": _object(dict(verb.fields))}, BYTES: {}}
    return {
        "operationId": name,
        "summary": verb.summary,
        "parameters": [
            {
                "name": "dataset",
                "in": "path",
                "required": True,
                "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,39}$"},
            }
        ],
        "requestBody": {"required": bool(verb.fields), "content": content},
        "responses": _answers({"type": "object"}, *_REFUSALS),
    }


def _answers(schema: dict[str, Any], *refusals: str) -> dict[str, Any]:
    good = {"description": "The answer.", "content": {JSON: {"schema": schema}, BYTES: {}}}
    bad = {JSON: {"schema": _ERROR}, BYTES: {}}
    return {
        "200": good,
        **{each: {"description": _REFUSALS[each], "content": bad} for each in refusals},
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
