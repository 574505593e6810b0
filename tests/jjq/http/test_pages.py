"""/openapi.json and the documentation page."""

from __future__ import annotations

from tests.jjq.http.asking import Web


async def test_openapi_tells_of_every_route_and_all_references_are_there(web: Web) -> None:
    api = (await web.ask("GET", "/openapi.json")).json
    operations = {each["operationId"] for methods in api["paths"].values() for each in methods.values()}
    assert {
        "push",
        "replay",
        "pop",
        "peek",
        "seek",
        "create_queue",
        "list_nodes",
        "split_queue",
    } <= operations
    assert len(operations) == sum(len(methods) for methods in api["paths"].values())
    schemas = api["components"]["schemas"]
    assert schemas["NewQueue"]["required"] == ["name"]
    assert schemas["NewQueue"]["additionalProperties"] is False

    def references(node: object) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"].rsplit("/", 1)[1]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*(references(each) for each in node.values()))
        return set().union(*(references(each) for each in node)) if isinstance(node, list) else set()

    assert references(api) <= set(schemas)
    push = api["paths"]["/v1/queues/{queue}/elements"]["post"]
    assert set(push["requestBody"]["content"]) >= {"application/json", "application/x-ndjson"}
    assert push["x-jjq-scope"] == "push"


async def test_the_documentation_needs_no_network_and_runs_nobody_elses_code(web: Web) -> None:
    page = await web.ask("GET", "/docs")
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    assert page.headers["x-content-type-options"] == "nosniff"
    for name in ("docs", "docs.js", "docs.css"):
        text = (await web.ask("GET", f"/{name}")).body.decode()
        assert "http://" not in text
        assert "https://" not in text
        assert "innerHTML" not in text
