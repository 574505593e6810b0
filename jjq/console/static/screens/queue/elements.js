// The elements of a queue, newest first: pages, a search in slices, and the tail as it grows.
import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { cut, bytes, count, whole } from "../../core/format.js";
import { useLoad } from "../../core/load.js";
import { Button, Empty, Failure, Loading, Panel, Time } from "../../parts/base.js";
import { Beside } from "../../parts/beside.js";
import { Icon } from "../../parts/icon.js";
import { Table } from "../../parts/table.js";
import { attempt } from "../../parts/toast.js";
import { ElementView } from "./element.js";
import { PAGE, extent, keyOf, page, sizeOf, startingPoint, textOf } from "./fetch.js";
import { Finder, Found } from "./finder.js";
import { Export } from "./export.js";

const KEPT = 200; // elements of a tail that are shown

export function Elements({ queue, content, figures, place, moveTo, push }) {
  const [live, setLive] = useState(false);
  const [sought, seek] = useState(null);
  const [chosen, choose] = useState(null);
  const [found, setFound] = useState([]);
  const [exporting, setExporting] = useState(false);
  const shown = usePage(queue, place);
  const tail = useTail(queue, live && !sought, figures, shown.loading ? undefined : shown.data);
  const rows = live && tail ? tail.rows : shown.data ? shown.data.rows : [];
  const listed = sought ? found : rows;
  const here = shown.data;
  const next = figures ? figures.next_offset : here ? here.next : 0;
  const renew = () => {
    moveTo("");
    shown.reload();
  };
  const turn = (on) => {
    setLive(on);
    seek(null);
    renew();
  };
  const fresh = here && !live && !sought && !place ? next - here.next : 0;
  const body = () => {
    if (sought) return html`<${Found} key=${JSON.stringify(sought)} queue=${queue} content=${content} sought=${sought} next=${next} chosen=${chosen} onChoose=${choose} columns=${COLUMNS} onRows=${setFound} />`;
    if (shown.error) return html`<${Failure} error=${shown.error} retry=${shown.reload} />`;
    if (!here) return html`<${Loading} />`;
    return html`<${Table} key=${place} label="Elements, newest first" columns=${COLUMNS} rows=${rows} rowKey=${(row) => row.offset} height="max(320px, calc(100vh - 300px))"
      chosen=${chosen ? chosen.offset : undefined} onChoose=${choose} reveal=${here.sought}
      empty=${html`<${Empty} title=${next > here.first ? "Nothing from here on" : "No element yet"} action=${push}>
        ${next > here.first ? "The queue ends before this place." : "What is pushed appears here."}<//>`} />`;
  };
  return html`<div class=${chosen ? "split" : ""}>
    <${Panel} title="Elements" flush note=${fresh > 0 ? html`<button type="button" class="more" onClick=${renew}>Show ${whole(fresh)} new</button>` : live && tail && tail.skipped ? `${whole(tail.skipped)} passed over: too quick to show` : ""}
      actions=${html`
        <${Button} kind=${live ? "main" : ""} aria-pressed=${live} onClick=${() => turn(!live)}><${Icon} name=${live ? "pause" : "play"} />${live ? "Live" : "Follow live"}<//>
        <${Button} onClick=${() => setExporting(true)} disabled=${listed.length === 0}><${Icon} name="down" />Export<//>`}>
      <${Finder} sought=${sought} onSeek=${(wanted) => { setLive(false); seek(wanted); }} onJump=${(text) => { setLive(false); seek(null); moveTo(startingPoint(text)); }} />
      ${body()}
      ${!sought && !live && here && html`<${Pages} here=${here} next=${next} moveTo=${moveTo} renew=${renew} />`}
    <//>
    ${chosen && html`<${Beside} title=${`Element ${whole(chosen.offset)}`} View=${ElementView} queue=${queue} content=${content} element=${chosen} onClose=${() => choose(null)} />`}
    ${exporting && html`<${Export} queue=${queue} content=${content} rows=${listed} onClose=${() => setExporting(false)} />`}
  </div>`;
}

// One page: from the starting point `place`, or the newest elements. Whoever turns a page (`page:OFFSET`) begins at its
// top; whoever goes to a place sees that place.
function usePage(queue, place) {
  return useLoad(async (signal) => {
    const { first_offset: first, next_offset: next } = await extent(queue, signal);
    const turned = place.startsWith("page:");
    const start = place.replace(/^page:/, "offset:") || `offset:${Math.max(first, next - PAGE)}`;
    const rows = (await page(queue, start, { signal })).reverse();
    return { rows, first, next, sought: place && !turned && rows.length ? rows[rows.length - 1].offset : undefined };
  }, [queue, place]);
}

// The newest elements, fetched when the live figures say that there are more. A queue that is quicker than anybody reads
// is sampled: what lies between is counted, not fetched.
function useTail(queue, on, figures, start) {
  const [tail, set] = useState(null);
  const busy = useRef(false);
  useEffect(() => set(on && start ? { rows: start.rows, skipped: 0 } : null), [on, queue, !start]);
  useEffect(() => {
    const known = tail && (tail.rows.length ? tail.rows[0].offset + 1 : 0);
    if (!on || !tail || !figures || busy.current || figures.next_offset <= known) return;
    busy.current = true;
    const from = Math.max(known, figures.next_offset - PAGE);
    attempt(async () => {
      const fresh = (await page(queue, `offset:${from}`, { limit: PAGE })).reverse();
      set((old) => old && { rows: [...fresh, ...old.rows].slice(0, KEPT), skipped: old.skipped + (old.rows.length ? from - known : 0) });
    }).then(() => (busy.current = false));
  }, [on, figures, tail === null]);
  return tail;
}

function Pages({ here, next, moveTo, renew }) {
  const { rows, first } = here;
  const [top, bottom] = rows.length ? [rows[0].offset, rows[rows.length - 1].offset] : [next - 1, next];
  const older = () => moveTo(`page:${Math.max(first, bottom - PAGE)}`);
  const newer = () => (top + 1 + PAGE >= next ? renew() : moveTo(`page:${top + 1}`));
  return html`<nav class="pages" aria-label="Pages">
    <${Button} kind="quiet" disabled=${top + 1 >= next} onClick=${renew}>Newest<//>
    <${Button} kind="quiet" disabled=${top + 1 >= next} onClick=${newer}><${Icon} name="older" />Newer<//>
    <span class="dim">${rows.length ? `${whole(top)} to ${whole(bottom)}` : "nothing"} of ${count(next - first, "element")}</span>
    <${Button} kind="quiet" disabled=${bottom <= first} onClick=${older}>Older<${Icon} name="newer" /><//>
    <${Button} kind="quiet" disabled=${bottom <= first} onClick=${() => moveTo(`offset:${first}`)}>Oldest<//>
  </nav>`;
}

const COLUMNS = [
  { id: "offset", label: "Offset", width: "120px", align: "right", cell: (row) => html`<button type="button" class="link mono" aria-label=${`Show element ${row.offset}`}>${whole(row.offset)}</button>` },
  { id: "time", label: "Time", width: "196px", from: "mid", cell: (row) => html`<${Time} at=${row.timestamp} />` },
  { id: "key", label: "Key", width: "13%", from: "mid", cell: (row) => html`<span class="mono">${cut(keyOf(row) ?? "", 200)}</span>` },
  { id: "size", label: "Size", width: "84px", align: "right", from: "mid", cell: (row) => bytes(sizeOf(row)) },
  { id: "value", label: "Value", cell: (row) => html`<span class="mono">${cut(textOf(row) ?? "", 300)}</span>` },
];
