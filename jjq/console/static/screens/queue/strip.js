// Blocks as a strip: what is hot, young and cold, and where each subscriber stands.
import { html, useEffect, useState } from "../../vendor/preact.js";
import { at, get } from "../../core/api.js";
import { bytes, count, percent, span, whole } from "../../core/format.js";
import { useLoad } from "../../core/load.js";
import { to } from "../../core/route.js";
import { Badge, Button, Failure, Loading, Panel, Time } from "../../parts/base.js";
import { Icon } from "../../parts/icon.js";

const SHOWN = 60; // blocks of one window
const KINDS = {
  final: ["cold", "in history, for ever"],
  young: ["young", "in history, to be merged"],
  sealing: ["sealing", "on its way to history"],
  "hot-hot": ["hot", "being written: journal and memory"],
};

export function Strip({ queue, figures, moveTo, actions }) {
  const [from, setFrom] = useState(null); // offset of the first block that is shown; null: the newest
  const [picked, pick] = useState(null);
  const load = useLoad((signal) => blocksFrom(queue, from, figures, signal), [queue, from]);
  useEffect(() => load.data && load.reload(), [figures && figures.cold_offset]);
  if (!figures) return html`<${Panel} title="Blocks"><${Loading} /><//>`;
  const blocks = grown(load.data ? load.data.blocks : [], figures);
  const block = picked !== null && blocks.find((each) => each.id === picked);
  const first = blocks.length ? blocks[0].first_offset : figures.first_offset;
  const last = blocks.length ? blocks[blocks.length - 1].last_offset : first;
  const older = () => setFrom(Math.max(figures.first_offset, 2 * first - last - 1));
  return html`<${Panel} title="Blocks" note=${figures.next_offset > figures.first_offset ? `${percent(share(figures))} of the elements in history` : "nothing yet"} actions=${html`
      <${Button} kind="small" disabled=${first <= figures.first_offset} onClick=${older}><${Icon} name="older" />Older<//>
      <${Button} kind="small" disabled=${from === null} onClick=${() => setFrom(null)}>Newest<${Icon} name="newer" /><//>
      ${actions}`}>
    <${Whole} figures=${figures} first=${first} last=${last} onMove=${setFrom} />
    ${load.error && html`<${Failure} error=${load.error} retry=${load.reload} />`}
    <div class="strip" role="group" aria-label="Blocks, oldest first">
      ${blocks.map((each) => html`<button type="button" key=${each.id} class=${`block ${each.kind} ${each.loaded ? "loaded" : ""} ${each.count ? "" : "empty"}`} style=${{ flexGrow: Math.sqrt(each.count + 1) }}
        aria-pressed=${each.id === picked} aria-label=${`Block ${each.id}: ${KINDS[each.kind][0]}, ${count(each.count, "element")}, ${count(inside(each, figures).length, "subscriber")}`}
        title=${`${KINDS[each.kind][0]}: ${whole(each.first_offset)} to ${whole(each.last_offset)}`} onClick=${() => pick(each.id === picked ? null : each.id)}>
        ${inside(each, figures).slice(0, 6).map((one) => html`<i class="reader" style=${{ left: `${within(each, one.offset)}%` }}></i>`)}
      </button>`)}
    </div>
    <div class="legend">
      ${Object.entries(KINDS).map(([kind, [name, about]]) => html`<span title=${about}><i class=${`swatch ${kind}`}></i>${name}</span>`)}
      <span title="held in memory for readers"><i class="swatch loaded"></i>in memory</span>
      <span><i class="reader still"></i>a subscriber</span>
    </div>
    ${block && html`<${Facts} queue=${queue} block=${block} readers=${inside(block, figures)} show=${() => moveTo(`offset:${block.first_offset}`)} />`}
  <//>`;
}

const share = ({ first_offset, next_offset, cold_offset }) => (next_offset > first_offset ? (cold_offset - first_offset) / (next_offset - first_offset) : 1);
const within = (block, offset) => Math.min(98, (100 * (offset - block.first_offset)) / Math.max(1, block.count));
const inside = (block, { subscribers }) =>
  (subscribers || []).filter(({ offset }) => offset >= block.first_offset && (offset <= block.last_offset || block.kind === "hot-hot"));

// A window of blocks. For the newest ones the place is guessed from the size of the last cold block.
async function blocksFrom(queue, from, figures, signal) {
  const path = at`v1/queues/${queue}/blocks`;
  const ask = (offset, size) => get(path, { from_offset: offset, page_size: size }, { signal });
  if (from !== null) return ask(from, SHOWN);
  const { first_offset: first, next_offset: next, cold_offset: cold } = figures || (await get(at`v1/queues/${queue}`, {}, { signal }));
  const [last] = (await ask(Math.max(first, cold - 1), 1)).blocks;
  let back = SHOWN * Math.max(1, last ? last.count : 1);
  let [near, far] = [{ blocks: [] }, Infinity];
  while (back < far) {
    const page = await ask(Math.max(first, next - back), SHOWN * 4);
    if (page.next_page_token) {
      far = back; // too many: the newest are not among them
      if (near.blocks.length) break;
      back = Math.max(1, Math.floor(back / 4));
    } else {
      near = page;
      if (page.blocks.length >= SHOWN || next - back <= first) break;
      back *= 4;
    }
  }
  return { blocks: near.blocks.slice(-SHOWN) };
}

// The block that is being written, as long as the queue is now.
function grown(blocks, figures) {
  return blocks.map((each) => {
    if (each.kind !== "hot-hot") return each;
    const last = Math.max(each.last_offset, figures.next_offset - 1);
    return { ...each, last_offset: last, count: last - each.first_offset + 1 };
  });
}

// The whole queue by offset; a click shows the blocks there.
function Whole({ figures, first, last, onMove }) {
  const { first_offset: begin, next_offset: end, cold_offset: cold, subscribers = [] } = figures;
  const size = Math.max(1, end - begin);
  const part = (offset) => `${(100 * (offset - begin)) / size}%`;
  const jump = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    onMove(begin + Math.floor(((event.clientX - box.left) / box.width) * size));
  };
  return html`<div class="whole" aria-hidden="true" onClick=${jump} title="The whole queue; a click shows the blocks there">
    <i class="final" style=${{ left: 0, width: part(cold) }}></i>
    <i class="hot-hot" style=${{ left: part(cold), width: part(begin + (end - cold)) }}></i>
    <i class="window" style=${{ left: part(first), width: part(begin + Math.max(0, last - first + 1)) }}></i>
    ${(subscribers || []).map((each) => html`<i class="reader" title=${`${each.name}: ${count(each.lag, "element")} behind`} style=${{ left: part(Math.max(begin, each.offset)) }}></i>`)}
  </div>
  <div class="ends"><span>${whole(begin)}</span><span>${whole(end)}</span></div>`;
}

function Facts({ queue, block, readers, show }) {
  const [name, about] = KINDS[block.kind];
  return html`<div class="block-facts">
    <dl class="facts">
      <dt>Block</dt><dd class="mono">${String(block.id).padStart(20, "0")} <${Badge} tone=${block.kind === "hot-hot" ? "accent" : ""}>${name}<//> <span class="dim">${about}${block.loaded ? ", in memory" : ""}</span></dd>
      <dt>Elements</dt><dd>${whole(block.count)}, offsets ${whole(block.first_offset)} to ${whole(block.last_offset)}</dd>
      ${block.count > 0 && html`<dt>From</dt><dd><${Time} at=${block.min_timestamp} /></dd>
        <dt>To</dt><dd><${Time} at=${block.max_timestamp} /> <span class="dim">${span((Date.parse(block.max_timestamp) - Date.parse(block.min_timestamp)) / 1000)}</span></dd>`}
      <dt>Size</dt><dd>${bytes(block.raw_bytes)}${block.stored_bytes ? `, stored as ${bytes(block.stored_bytes)} (${(block.raw_bytes / block.stored_bytes).toFixed(1)} to 1)` : ""}</dd>
      ${block.sha256 && html`<dt>SHA-256</dt><dd class="mono">${block.sha256}</dd>`}
      ${block.key && html`<dt>Object</dt><dd class="mono">${block.key}</dd>`}
      <dt>Readers</dt><dd>${readers.length
        ? readers.map((each) => html`<a href=${to("subscribers", { queue, chosen: each.name })}>${each.name}</a> `)
        : html`<span class="dim">none</span>`}</dd>
    </dl>
    <${Button} kind="small" onClick=${show}>Show its elements<//>
  </div>`;
}
