"""SQL over HTTP: rows in four forms, and errors before the first of them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tests.jjq.http.asking import Web

NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
QUERY = 'SELECT "offset", value FROM orders WHERE "offset" >= $1 ORDER BY 1'


async def test_rows_come_in_the_form_that_is_asked_for(orders: Web) -> None:
    await orders.ask("POST", "/v1/queues/orders/elements", b"10\n11\n12", Content_Type=NDJSON)
    asked = {"query": QUERY, "params": [1]}
    lines = await orders.send("POST", "/v1/sql", asked)
    assert lines.headers["content-type"] == NDJSON
    assert lines.lines == [{"offset": 1, "value": "11"}, {"offset": 2, "value": "12"}]
    page = await orders.send("POST", "/v1/sql", asked, Accept="application/json")
    types = ["int64", "string"]
    assert page.json == {"columns": ["offset", "value"], "types": types, "rows": [[1, "11"], [2, "12"]]}
    arrow = await orders.send("POST", "/v1/sql", asked, Accept=ARROW)
    assert pa.ipc.open_stream(arrow.body).read_all().column("offset").to_pylist() == [1, 2]
    parquet = await orders.send("POST", "/v1/sql", asked, Accept="application/vnd.apache.parquet")
    assert pq.read_table(pa.BufferReader(parquet.body)).column("value").to_pylist() == ["11", "12"]
    named = {"query": "SELECT $a AS a, 1.5::DECIMAL(3,1) AS d", "params": {"a": "é"}}
    assert (await orders.send("POST", "/v1/sql", named)).lines == [{"a": "é", "d": "1.5"}]


async def test_a_query_that_is_wrong_is_refused_in_words(orders: Web) -> None:
    for query in ("SELEC 1", "DELETE FROM orders", "SELECT * FROM nowhere"):
        said = await orders.send("POST", "/v1/sql", {"query": query})
        assert said.status in {400, 404}, said.body
        assert said.json["detail"]
    assert (await orders.send("POST", "/v1/sql", {"text": "SELECT 1"})).status == 422
    many = await orders.send(
        "POST", "/v1/sql", {"query": "SELECT * FROM range(20000)"}, Accept="application/json"
    )
    assert (many.status, "LIMIT" in many.json["detail"]) == (400, True), many.body
