// A table of which only the rows in sight exist, so that 100,000 rows cost as much as forty.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";

const ROW = 34; // pixels; style/parts.css has the same
const SPARE = 8; // rows above and below that are there already

// columns: {id, label, cell(row), sort(row)?, width?, align: "right"?, from: "mid" | "wide"?}
// `from` leaves a column out where the window is narrower. `seen` is told which rows are in sight.
// `reveal` is the key of a row to scroll to.
export function Table({ label, columns, rows, rowKey, order, height = "60vh", seen, chosen, onChoose, reveal, empty }) {
  const place = useRef(null);
  const [sorted, sortBy] = useState(order || { id: "", down: false });
  const [top, setTop] = useState(0);
  const [room, setRoom] = useState(600);
  useEffect(() => {
    const box = place.current;
    const watch = new ResizeObserver(() => setRoom(box.clientHeight));
    watch.observe(box);
    return () => watch.disconnect();
  }, []);
  const ordered = useMemo(() => inOrder(rows, columns, sorted), [rows, sorted, columns]);
  const first = Math.max(0, Math.floor(top / ROW) - SPARE);
  const last = Math.min(ordered.length, Math.ceil((top + room) / ROW) + SPARE);
  const shown = ordered.slice(first, last);
  const keys = shown.map(rowKey).join("\n");
  useEffect(() => seen && seen(shown), [keys]);
  useEffect(() => {
    const index = reveal === undefined ? -1 : ordered.findIndex((row) => rowKey(row) === reveal);
    if (index >= 0) place.current.scrollTop = index * ROW - place.current.clientHeight / 2;
  }, [reveal, rows]);
  const turn = (id) => sortBy({ id, down: sorted.id === id ? !sorted.down : true });
  return html`<div class="table" ref=${place} style=${{ maxHeight: height }} tabindex="0" role="region" aria-label=${label}
    onScroll=${(event) => setTop(event.currentTarget.scrollTop)}>
    <table aria-rowcount=${ordered.length + 1}>
      <colgroup>${columns.map((each) => html`<col class=${each.from || ""} style=${{ width: each.width || "auto" }} />`)}</colgroup>
      <thead><tr>${columns.map((each) => html`<${Head} column=${each} sorted=${sorted} turn=${turn} />`)}</tr></thead>
      <tbody>
        ${first > 0 && html`<tr class="gap" aria-hidden="true" style=${{ height: `${first * ROW}px` }}></tr>`}
        ${shown.map((row, n) => html`<tr key=${rowKey(row)} aria-rowindex=${first + n + 2}
          class=${chosen !== undefined && rowKey(row) === chosen ? "chosen" : onChoose ? "choice-row" : ""}
          onClick=${onChoose && (() => onChoose(row))}>
          ${columns.map((each) => html`<td class=${`${each.align || ""} ${each.from || ""}`}>${each.cell(row)}</td>`)}
        </tr>`)}
        ${last < ordered.length && html`<tr class="gap" aria-hidden="true" style=${{ height: `${(ordered.length - last) * ROW}px` }}></tr>`}
      </tbody>
    </table>
    ${ordered.length === 0 && empty}
  </div>`;
}

function Head({ column, sorted, turn }) {
  const here = sorted.id === column.id;
  const how = here ? (sorted.down ? "descending" : "ascending") : undefined;
  return html`<th scope="col" class=${`${column.align || ""} ${column.from || ""}`} aria-sort=${how}>
    ${column.sort
      ? html`<button type="button" onClick=${() => turn(column.id)}>${column.label}<span class="arrow" aria-hidden="true">${here ? (sorted.down ? "↓" : "↑") : ""}</span></button>`
      : column.label}
  </th>`;
}

function inOrder(rows, columns, { id, down }) {
  const column = columns.find((each) => each.id === id && each.sort);
  if (!column) return rows;
  const keyed = rows.map((row) => [column.sort(row), row]);
  keyed.sort(([a], [b]) => (a === b ? 0 : a === null || a === undefined ? 1 : b === null || b === undefined ? -1 : a < b ? -1 : 1));
  if (down) keyed.reverse();
  return keyed.map(([, row]) => row);
}
