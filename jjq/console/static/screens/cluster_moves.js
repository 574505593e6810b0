// Moves of shards between nodes: as a plan, and one after another with their progress.
import { html, useRef, useState } from "../vendor/preact.js";
import { at, post } from "../core/api.js";
import { bytes, count, percent, whole } from "../core/format.js";
import { Badge, Button, Panel } from "../parts/base.js";
import { say } from "../parts/toast.js";

const size = (moves) => moves.reduce((sum, move) => sum + move.shard.load.history_bytes, 0);
const offsets = (shard) => `${whole(shard.first_offset)} – ${shard.next_offset === null ? "the end" : whole(shard.next_offset - 1)}`;

// 3 shards (1.2 GiB)
export const movesInWords = (moves) => `${count(moves.length, "shard")} (${bytes(size(moves))})`;

// What each node carries before and after, and the moves.
export function RebalancePlan({ plan }) {
  const share = (percents) => Math.max(0, Math.round(percents * 10)) / 1000; // of 1
  const most = Math.max(...plan.shares.flatMap(({ before, after }) => [share(before), share(after)]), 1e-9);
  return html`
    <table class="plain shares"><caption class="unseen">Share of the load, before and after</caption>
      <thead><tr><th scope="col">Node</th><th scope="col">Share of the load</th><th scope="col" class="right">Before</th><th scope="col" class="right">After</th></tr></thead>
      <tbody>${plan.shares.map(({ node, before, after }) => html`<tr><th scope="row">${node}</th>
        <td><span class="meter before"><span style=${{ width: `${(100 * share(before)) / most}%` }}></span></span><span class="meter"><span style=${{ width: `${(100 * share(after)) / most}%` }}></span></span></td>
        <td class="right">${percent(share(before))}</td><td class="right"><b>${percent(share(after))}</b></td></tr>`)}</tbody>
    </table>
    <ol class="moves">${plan.moves.map((move) => html`<li><b>${move.shard.queue}</b> <span class="dim">${offsets(move.shard)}, ${bytes(move.shard.load.history_bytes)}</span>
      <span class="route">${move.shard.node} → ${move.to}</span></li>`)}</ol>`;
}

// {title, list: [{shard, to, state, error}], running, done, run(title, moves), stop()}
export function useMoves(moved) {
  const [state, set] = useState({ title: "", list: [], running: false, done: 0 });
  const halt = useRef(false);
  const run = async (title, moves) => {
    halt.current = false;
    const list = moves.map((move) => ({ ...move, state: "waits" }));
    const show = (running) => set((before) => ({ title, list: [...list], running, done: running ? before.done : before.done + 1 }));
    for (const move of list) {
      if (halt.current) break;
      move.state = "moves";
      show(true);
      try {
        await post(at`v1/queues/${move.shard.queue}/move`, { to: move.to, first_offset: move.shard.first_offset || undefined });
        move.state = "moved";
      } catch (problem) {
        move.state = "failed";
        move.error = problem.detail || problem.message;
      }
      moved();
    }
    show(false);
    const failed = list.filter((move) => move.state === "failed").length;
    const fine = list.filter((move) => move.state === "moved").length;
    failed ? say(`${title}: ${count(failed, "move")} failed.`, "bad") : say(`${title}: ${count(fine, "shard")} moved.`);
  };
  return { ...state, run, stop: () => { halt.current = true; }, clear: () => set((before) => ({ ...before, list: [] })) };
}

const TONES = { waits: "", moves: "accent", moved: "good", failed: "bad" };

export function Moves({ moves }) {
  const over = moves.list.filter((move) => move.state === "moved" || move.state === "failed").length;
  return html`<${Panel} title=${moves.title} note=${`${whole(over)} of ${count(moves.list.length, "move")}`}
    actions=${moves.running ? html`<${Button} kind="small" onClick=${moves.stop}>Stop after this one<//>` : html`<${Button} kind="small" onClick=${moves.clear}>Close<//>`}>
    <progress value=${over} max=${moves.list.length} aria-label=${moves.title}></progress>
    <ol class="moves" aria-live="polite">${moves.list.map((move) => html`<li><b>${move.shard.queue}</b> <span class="dim">${offsets(move.shard)}</span>
      <span class="route">${move.shard.node} → ${move.to}</span> <${Badge} tone=${TONES[move.state]}>${move.state}<//>
      ${move.error && html`<p class="refused">${move.error}</p>`}</li>`)}</ol>
  <//>`;
}
