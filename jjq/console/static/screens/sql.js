// SQL over history, tail and tasks: an editor, the rows as a table or a plot, and files of them.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { all, request, sql } from "../core/api.js";
import { cell, useCell } from "../core/cell.js";
import { canPlot, isNumber, isTime } from "../core/columns.js";
import { count, span } from "../core/format.js";
import { useLoad } from "../core/load.js";
import { Button, Empty, Failure, Loading, Page, Panel, Search } from "../parts/base.js";
import { Dialog } from "../parts/dialog.js";
import { csv, download } from "../parts/download.js";
import { Choice } from "../parts/form.js";
import { Json, Long, parse } from "../parts/json.js";
import { Table } from "../parts/table.js";
import { attempt } from "../parts/toast.js";
import { ResultPlot } from "./sql_plot.js";

const SYSTEM = ["jjq.queues", "jjq.subscribers", "jjq.blocks", "jjq.groups", "jjq.tasks", "jjq.transitions", "jjq.nodes", "jjq.shards", "jjq.tables"];
const NAMES = 200; // queues that are listed
const TICK_MS = 100;
const NDJSON = "application/x-ndjson";

const quoted = (name) => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

const EXAMPLES = (queue) => [
  ["The last ten elements", `SELECT offset, timestamp, decode(key) AS key, value\nFROM ${queue}\nORDER BY offset DESC\nLIMIT 10`],
  ["Elements per minute", `SELECT time_bucket(INTERVAL 1 MINUTE, timestamp) AS minute, count(*) AS elements\nFROM ${queue}\nWHERE timestamp > now() - INTERVAL 1 DAY\nGROUP BY minute\nORDER BY minute`],
  ["The newest element of each key", `SELECT decode(key) AS key, max(offset) AS offset, max_by(value, offset) AS value\nFROM ${queue}\nWHERE key IS NOT NULL\nGROUP BY key\nORDER BY key`],
  ["Who is furthest behind?", "SELECT queue, name, lag, round(lag_seconds, 1) AS seconds\nFROM jjq.subscribers\nORDER BY lag_seconds DESC\nLIMIT 20"],
  ["Tasks by state", 'SELECT queue, "group", state, count(*) AS tasks\nFROM jjq.tasks\nGROUP BY ALL\nORDER BY ALL'],
  ["Why tasks failed", "SELECT reason, count(*) AS times, max(timestamp) AS last\nFROM jjq.transitions\nWHERE event IN ('nack', 'bury', 'timeout')\nGROUP BY reason\nORDER BY times DESC"],
  ["What is stored, and how well it is compressed", "SELECT queue, kind, count(*) AS blocks, sum(elements) AS elements, sum(stored_bytes) AS stored\nFROM jjq.blocks\nWHERE stored_bytes IS NOT NULL\nGROUP BY ALL\nORDER BY ALL"],
];

// What is written and what came of it stay while other screens are looked at.
const text = cell("");
const outcome = cell(null); // {columns, types, rows, seconds} or {error, query}
let running = null;

export function Sql() {
  const query = useCell(text);
  const result = useCell(outcome);
  const editor = useRef(null);
  const [began, begin] = useState(0);
  const queues = useLoad((signal) => all("v1/queues", "queues", { signal }).catch(() => []), []);
  const first = queues.data && queues.data[0] ? quoted((queues.data.find((each) => each.next_offset > 0) || queues.data[0]).name) : "orders";
  const run = async () => {
    if (running || !text.value.trim()) return;
    const mine = (running = new AbortController());
    const since = performance.now();
    begin(since);
    try {
      const found = await sql(text.value, undefined, { signal: mine.signal });
      outcome.set({ ...found, rows: found.rows.map((cells, n) => ({ n, cells })), seconds: (performance.now() - since) / 1000 });
    } catch (error) {
      outcome.set(error.name === "AbortError" ? { cancelled: true } : { error, query: text.value });
      mark(editor.current, error, text.value);
    }
    running = null;
    begin(0);
  };
  useEffect(() => () => { if (running) running.abort(); }, []);
  const insert = (name) => {
    const box = editor.current;
    box.setRangeText(name, box.selectionStart, box.selectionEnd, "end");
    text.set(box.value);
    box.focus();
  };
  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    } else if (event.key === "Escape" && running) running.abort();
  };
  return html`<${Page} title="SQL" about="Every queue is a table, from its first element up to now. Only reading is possible.">
    <div class="beside">
      <div>
        <${Panel} title="Query" actions=${html`<select aria-label="Examples" value="" onChange=${(event) => { text.set(EXAMPLES(first)[Number(event.target.value)][1]); event.target.value = ""; editor.current.focus(); }}>
            <option value="" disabled selected>Examples…</option>
            ${EXAMPLES(first).map(([name], n) => html`<option value=${n}>${name}</option>`)}
          </select>`}>
          <textarea ref=${editor} class="editor" aria-label="Query" rows=${Math.min(16, Math.max(6, query.split("\n").length + 1))} spellcheck=${false} autocomplete="off"
            placeholder=${`SELECT * FROM ${first} ORDER BY offset DESC LIMIT 10`} value=${query} onInput=${(event) => text.set(event.target.value)} onKeyDown=${keys}></textarea>
          <div class="row under">
            <${Button} kind="main" disabled=${began > 0 || !query.trim()} onClick=${run}>Run<//>
            ${began > 0 && html`<${Button} onClick=${() => running && running.abort()}>Cancel<//><${Clock} since=${began} />`}
            ${began === 0 && html`<span class="note"><kbd>Ctrl</kbd> + <kbd>Enter</kbd> runs it, <kbd>Esc</kbd> cancels</span>`}
          </div>
        <//>
        <${Result} result=${result} busy=${began > 0} query=${query} />
      </div>
      <${Tables} queues=${queues.data || []} insert=${insert} />
    </div>
  <//>`;
}

function Clock({ since }) {
  const [now, tick] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => tick(performance.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return html`<span class="note" role="status">runs for ${span(Math.max(0, Math.round((now - since) / TICK_MS)) / 10)}</span>`;
}

function Tables({ queues, insert }) {
  const [search, setSearch] = useState("");
  const fits = queues.filter((queue) => queue.name.toLowerCase().includes(search.toLowerCase()));
  return html`<${Panel} title="Tables" note="click to insert">
    <${Search} value=${search} onInput=${setSearch} label="Search tables" />
    <ul class="names">
      ${fits.slice(0, NAMES).map((queue) => html`<li><button type="button" onClick=${() => insert(quoted(queue.name))}>${queue.name}</button> <span class="note">${queue.content}</span></li>`)}
      ${fits.length > NAMES && html`<li class="note">${count(fits.length - NAMES, "more queue")}</li>`}
      ${SYSTEM.filter((name) => name.includes(search.toLowerCase())).map((name) => html`<li><button type="button" onClick=${() => insert(name)}>${name}</button></li>`)}
    </ul>
  <//>`;
}

// The part of the query that is meant: at the place that the server says, or the name that it quotes.
function wrongPart(error, query) {
  const said = /\(line (\d+), column (\d+)\)\s*$/.exec(error.detail || "");
  const named = /"([^"]+)"|no table ([^\s:]+)/.exec(error.detail || "");
  const name = named && (named[1] || named[2]);
  const lines = query.split("\n");
  const at = said ? Number(said[1]) - 1 : name ? lines.findIndex((line) => line.includes(name)) : -1;
  if (lines[at] === undefined) return null;
  const line = lines[at];
  const from = Math.min(said ? Number(said[2]) - 1 : line.indexOf(name), Math.max(0, line.length - 1));
  const word = said ? (/^\w+|^./.exec(line.slice(from)) || [" "])[0] : name;
  return { line, number: at + 1, from, to: from + word.length };
}

function mark(box, error, query) {
  const part = box && wrongPart(error, query);
  if (!part) return;
  const before = query.split("\n").slice(0, part.number - 1).reduce((sum, line) => sum + line.length + 1, 0);
  box.focus();
  box.setSelectionRange(before + part.from, before + part.to);
}

function Result({ result, busy, query }) {
  const [view, see] = useState("table");
  const [row, open] = useState(null);
  const shown = result && result.rows ? result : null;
  const columns = useMemo(() => (shown ? shown.columns.map((name, n) => column(name, shown.types[n], n)) : []), [shown]);
  if (!result) return busy ? html`<${Panel}><${Loading} what="The query runs" /><//>` : html`<${Panel}><${Empty} title="No rows yet">Write a query, or take an example; history, the newest elements and tasks are all there.<//><//>`;
  if (result.cancelled) return html`<${Panel}><${Empty} title="Cancelled">The server has stopped the query.<//><//>`;
  if (result.error) return html`<${Wrong} ...${result} />`;
  const plot = canPlot(shown);
  const name = `rows-${shown.rows.length}`;
  const values = shown.rows.map((each) => each.cells);
  const objects = () => shown.rows.map(({ cells }) => Object.fromEntries(shown.columns.map((each, n) => [each, cells[n]])));
  return html`<${Panel} title=${count(shown.rows.length, "row")} note=${`in ${span(Math.round(shown.seconds * 1000) / 1000)}`} flush=${view === "table"}
    actions=${html`${plot && html`<${Choice} label="Rows as" value=${view} options=${[["table", "Table"], ["plot", "Plot"]]} onInput=${see} />`}
      <${Button} kind="small" onClick=${() => download(`${name}.csv`, csv(shown.columns, values), "text/csv")}>CSV<//>
      <${Button} kind="small" onClick=${() => download(`${name}.json`, JSON.stringify(objects(), null, 1), "application/json")}>JSON<//>`}>
    ${view === "plot" && plot ? html`<${ResultPlot} result=${shown} />` : html`<div class="result"><${Table} label="Rows" columns=${columns} rows=${shown.rows} rowKey=${(each) => each.n} height="60vh" onChoose=${open} empty=${html`<${Empty} title="No rows">The query is fine; nothing fits it.<//>`} /></div>`}
    ${row && html`<${Row} row=${row} result=${shown} onClose=${() => open(null)} />`}
  <//>`;
}

const plain = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
const shownCell = (value) => (value === null ? html`<span class="dim">null</span>` : html`<span class=${typeof value === "number" ? "" : "mono"}>${plain(value).slice(0, 300)}</span>`);

const column = (name, type, n) => ({
  id: String(n), label: name, align: isNumber(type) ? "right" : "", width: isNumber(type) ? "130px" : isTime(type) ? "250px" : undefined,
  cell: ({ cells }) => (n === 0 ? html`<span class="first">${shownCell(cells[n])}</span>` : shownCell(cells[n])),
  sort: ({ cells }) => (isNumber(type) && cells[n] !== null ? Number(cells[n]) : cells[n]),
});

// All of a row: a table cuts what is long.
const Row = ({ row, result, onClose }) => html`<${Dialog} title=${`Row ${row.n + 1}`} onClose=${onClose} wide>
  <dl class="facts">${result.columns.map((name, n) => {
    const value = row.cells[n];
    const tree = typeof value === "string" ? parse(value) : value;
    return html`<dt>${name}<br /><span class="note">${result.types[n]}</span></dt>
      <dd>${tree !== null && typeof tree === "object" ? html`<${Json} value=${tree} />` : value === null ? html`<span class="dim">null</span>` : html`<${Long} text=${plain(value)} kind="mono" most=${2000} />`}</dd>`;
  })}</dl>
<//>`;

function Wrong({ error, query }) {
  const part = wrongPart(error, query);
  const large = /more than \d+ rows/.test(error.detail || "");
  const lines = () => attempt(async () => download("rows.ndjson", await (await request("POST", "v1/sql", { body: { query }, accept: NDJSON })).blob(), NDJSON));
  if (error.forbidden) return html`<${Panel}><${Failure} error=${error} /><//>`;
  return html`<${Panel}><div class="wrong" role="alert">
    <h3>${large ? "Too many rows to show" : "The query did not run"}</h3>
    <p>${error.detail || error.message}</p>
    ${part && html`<pre><span class="dim">${part.number} │ </span>${part.line.slice(0, part.from)}<mark>${part.line.slice(part.from, part.to)}</mark>${part.line.slice(part.to)}</pre>`}
    ${large && html`<${Button} onClick=${lines}>Download all rows as lines of JSON<//>`}
  </div><//>`;
}
