// Export: the elements that are shown, whole, as a file.
import { html, useState } from "../../vendor/preact.js";
import { at, request } from "../../core/api.js";
import { count, whole } from "../../core/format.js";
import { Dialog } from "../../parts/dialog.js";
import { Choice, Field, Form } from "../../parts/form.js";
import { csv, download } from "../../parts/download.js";
import { say } from "../../parts/toast.js";
import { parse } from "../../parts/json.js";
import { keyOf, textOf } from "./fetch.js";

const PARQUET = "application/vnd.apache.parquet";
const FORMS = { json: "JSON", ndjson: "NDJSON", csv: "CSV", parquet: "Parquet" };

export function Export({ queue, content, rows, onClose }) {
  const [form, setForm] = useState("json");
  const [last, first] = [rows[0].offset, rows[rows.length - 1].offset];
  const submit = async () => {
    const accept = form === "parquet" ? PARQUET : "application/x-ndjson";
    const dense = last - first + 1 === rows.length;
    const reply = dense ? await replay(queue, first, rows.length, accept) : await chosen(queue, rows, accept);
    const name = `${queue}-${first}-${last}.${form}`;
    if (form === "parquet") download(name, await reply.blob());
    else download(name, written(form, dense ? await reply.text() : likeReplay(content, await reply.text())), form === "csv" ? "text/csv" : "application/json");
    say(`${name} is saved`);
    onClose();
  };
  return html`<${Dialog} title="Export" onClose=${onClose}>
    <p>${count(rows.length, "element")}, offsets ${whole(first)} to ${whole(last)}, with whole values, keys and headers.</p>
    <${Form} submit=${submit} verb="Save the file" onCancel=${onClose}>
      <${Field} label="As"><${Choice} label="As" value=${form} onInput=${setForm} options=${Object.entries(FORMS)} /><//>
    <//>
  <//>`;
}

const replay = (queue, first, limit, accept) =>
  request("GET", at`v1/queues/${queue}/elements`, { query: { start: `offset:${first}`, limit }, accept });

// What a search has found is not one range.
function chosen(queue, rows, accept) {
  const offsets = rows.map((each) => each.offset);
  const query = `SELECT * FROM "${queue.replaceAll('"', '""')}" WHERE "offset" >= $1 AND "offset" <= $2 AND list_contains($3::BIGINT[], "offset") ORDER BY "offset"`;
  return request("POST", "v1/sql", { body: { query, params: [offsets[offsets.length - 1], offsets[0], offsets] }, accept });
}

// Rows of SQL have the values of a JSON queue as text; lines of a replay have them as they are.
function likeReplay(content, lines) {
  if (content !== "json") return lines;
  const line = (row) => `{${Object.entries(row).filter(([, each]) => each !== null).map(([name, each]) => `"${name}":${name === "value" ? each : JSON.stringify(each)}`).join(",")}}`;
  return lines.split("\n").filter(Boolean).map((each) => line(JSON.parse(each))).join("\n");
}

function written(form, lines) {
  const every = lines.split("\n").filter(Boolean);
  if (form === "ndjson") return lines;
  if (form === "json") return `[\n${every.join(",\n")}\n]\n`;
  const rows = every.map(parse).map((each) => [each.offset, each.timestamp, keyOf(each), textOf(each), each.headers]);
  return csv(["offset", "timestamp", "key", "value", "headers"], rows);
}
