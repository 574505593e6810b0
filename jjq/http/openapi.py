"""/openapi.json: OpenAPI 3.1, made from the routes and the types of their documents. Nothing is written twice."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from hotstore.read.status import installed_version
from jjq.http.problems import MEDIA_TYPE
from jjq.http.request import JSON
from jjq.http.routing import HttpRoute, Parameter, RouteTable

_VARIABLE: Final = re.compile(r"\{(\w+)\}")
_REFERENCES: Final = "#/components/schemas/{name}"
_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail", "advice", "retriable", "instance"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "jjq's own code, the same as over gRPC"},
        "detail": {"type": "string", "description": "what happened"},
        "advice": {"type": "string", "description": "what to do"},
        "retriable": {"type": "boolean"},
        "instance": {"type": "string", "description": "the number of the request, as in the server's log"},
    },
}
_OF_BODIES: Final = ("411", "413", "415", "422")
_OF_ALL: Final = ("400", "401", "403", "404", "405", "409", "421", "429", "431", "503")


def describe_routes(routes: RouteTable[HttpRoute]) -> dict[str, Any]:
    """The whole document."""
    every = sorted((route for route in routes if route.listed), key=lambda route: (route.path, route.method))
    kinds = [kind for route in every for kind in (route.body, route.reply) if kind not in {None, dict}]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCES)
    known = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    _open_raw_values(components)
    paths: dict[str, dict[str, Any]] = {}
    for route in every:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, known)
    components["Problem"] = _PROBLEM
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jjq",
            "version": installed_version(),
            "description": "A multi-subscriber log with an infinite history. Errors are problems (RFC 9457).",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "bearerFormat": "jjq_<id>_<secret>"}
            },
        },
        "security": [{}, {"key": []}],
    }


def _open_raw_values(components: dict[str, Any]) -> None:
    """A raw value is any JSON; msgspec describes it as nothing in particular, which says the same."""
    for schema in components.values():
        if schema.get("title") == "Sent":
            schema.pop("title")


def _operation(route: HttpRoute, known: dict[int, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "tags": [_tag(route)],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in _VARIABLE.findall(route.path)
        ]
        + [_parameter(each) for each in route.parameters],
        "responses": _responses(route, known),
    }
    if route.scope:
        operation["x-jjq-scope"] = route.scope
    else:
        operation["security"] = []
    if route.body is not None or route.takes:
        content = {} if route.body is None else {JSON: {"schema": known[id(route.body)]}}
        content |= {kind: {"schema": {"type": "string"}} for kind in route.takes}
        operation["requestBody"] = {"content": content, "required": bool(route.takes)}
    return operation


def _tag(route: HttpRoute) -> str:
    if route.path.startswith("/v1/"):
        return route.path.split("/")[2]
    return "sqew" if route.name.startswith("sqew_") else "server"


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": parameter.kind}
    if parameter.kind == "integer":
        schema["minimum"] = 0
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": False,
        "description": parameter.about,
        "schema": schema,
    }


def _responses(route: HttpRoute, known: dict[int, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if route.reply is not None:
        content[JSON] = {"schema": {"type": "object"} if route.reply is dict else known[id(route.reply)]}
    content |= {kind: {"schema": {} if kind == "*/*" else {"type": "string"}} for kind in route.gives}
    done: dict[str, Any] = {"description": "done"}
    if content:
        done["content"] = content
    media_types: dict[str, Any] = {MEDIA_TYPE.decode(): {"schema": {"$ref": "#/components/schemas/Problem"}}}
    if route.plain_errors:
        media_types = {"text/plain": {"schema": {"type": "string"}}, **media_types}
    problem = {"description": "refused: the document says why, and what to do", "content": media_types}
    codes = (*_OF_ALL, *(_OF_BODIES if route.body is not None or route.takes else ()))
    if len(route.gives) and route.reply is not None:
        codes = (*codes, "406")
    also = {code: done if code < "400" else problem for code in route.codes}
    return {str(route.status): done, **dict.fromkeys(sorted(codes), problem), **also}
