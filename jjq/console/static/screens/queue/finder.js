// Finding elements: a place to jump to, or a condition that is looked for in slices, from the end backwards.
import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { whole } from "../../core/format.js";
import { Button, Empty, Failure, Loading } from "../../parts/base.js";
import { Table } from "../../parts/table.js";
import { PAGE, search } from "./fetch.js";

const SLICE = 100_000; // elements that one step looks at; later steps look at more
const SLICE_MOST = 3_000_000;
const WAYS = {
  place: ["Go to", "offset, 2026-01-31 12:00, ago:1h, beginning"],
  text: ["Value has", "a text in the value"],
  key: ["Key is", "the whole key"],
  sql: ["SQL", "value->>'total' > 100   (a condition of DuckDB)"],
};

export function Finder({ sought, onSeek, onJump }) {
  const [by, setBy] = useState("place");
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    if (!text.trim()) return onSeek(null);
    return by === "place" ? onJump(text) : onSeek({ by, text: text.trim(), at: Date.now() });
  };
  return html`<form class="finder" role="search" onSubmit=${submit}>
    <select aria-label="Find by" value=${by} onChange=${(event) => setBy(event.target.value)}>
      ${Object.entries(WAYS).map(([name, [label]]) => html`<option value=${name} selected=${name === by}>${label}</option>`)}
    </select>
    <input type="search" data-search class="grow mono" value=${text} placeholder=${WAYS[by][1]} aria-label=${`${WAYS[by][0]}: ${WAYS[by][1]}`}
      autocomplete="off" spellcheck=${false} onInput=${(event) => setText(event.target.value)} />
    <button class="button" type="submit">${by === "place" ? "Go" : "Find"}</button>
    ${sought && html`<${Button} kind="quiet" onClick=${() => { setText(""); onSeek(null); }}>Back to all<//>`}
  </form>`;
}

export function Found({ queue, content, sought, next, columns, chosen, onChoose, onRows }) {
  const [rows, setRows] = useState([]);
  const [state, setState] = useState({ from: next, size: SLICE, busy: false, error: null });
  const stop = useRef(null);
  const step = async () => {
    const first = Math.max(0, state.from - state.size);
    stop.current = new AbortController();
    setState({ ...state, busy: true, error: null });
    try {
      const found = await search(queue, content, { ...sought, first, next: state.from, signal: stop.current.signal });
      // A full page leaves the rest of its slice for the next step.
      const from = found.length === PAGE ? found[found.length - 1].offset : first;
      setRows((old) => [...old, ...found]);
      setState({ from, size: Math.min(state.size * 4, SLICE_MOST), busy: false, error: null });
    } catch (error) {
      setState((old) => ({ ...old, busy: false, error: error.name === "AbortError" ? null : error }));
    }
  };
  useEffect(() => {
    step();
    return () => stop.current && stop.current.abort();
  }, []);
  useEffect(() => onRows(rows), [rows]);
  const done = state.from <= 0;
  return html`
    <${Table} label="Elements that were found, newest first" columns=${columns} rows=${rows} rowKey=${(row) => row.offset} height="max(320px, calc(100vh - 300px))"
      chosen=${chosen ? chosen.offset : undefined} onChoose=${onChoose}
      empty=${state.busy || state.error ? null : html`<${Empty} title="Nothing fits">Nothing from offset ${whole(state.from)} up to ${whole(next)} fits.<//>`} />
    ${state.error && html`<${Failure} error=${state.error} retry=${step} />`}
    ${state.busy && html`<${Loading} what=${`Looking from offset ${whole(Math.max(0, state.from - state.size))} up to ${whole(state.from)}`} />`}
    <nav class="pages" aria-label="Search">
      <span class="dim">${whole(rows.length)} found; looked at ${whole(next - state.from)} of ${whole(next)}</span>
      ${state.busy
        ? html`<${Button} kind="quiet" onClick=${() => stop.current.abort()}>Stop<//>`
        : html`<${Button} disabled=${done} onClick=${step}>${done ? "All was looked at" : "Look further back"}<//>`}
    </nav>`;
}
