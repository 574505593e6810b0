// The cluster: its nodes and what each carries, who serves which part of which queue, and moves between nodes.
import { html, useMemo, useState } from "../vendor/preact.js";
import { all, at, get, post } from "../core/api.js";
import { bytes, count, rate, short, span, whole } from "../core/format.js";
import { useEvery, useLoad } from "../core/load.js";
import { to } from "../core/route.js";
import { Badge, Button, Empty, Loaded, Page, Panel, Search } from "../parts/base.js";
import { Confirm, Dialog } from "../parts/dialog.js";
import { Form, Select } from "../parts/form.js";
import { Table } from "../parts/table.js";
import { attempt, say } from "../parts/toast.js";
import { Moves, RebalancePlan, movesInWords, useMoves } from "./cluster_moves.js";

const REFRESH_SECONDS = 5;

// A lone server has no name, and knows no nodes: null.
async function nodesOf(signal) {
  const { nodes: servers } = await get("v1/status", {}, { signal });
  return servers.some((each) => each.node) ? (await get("v1/nodes", {}, { signal })).nodes : null;
}

export function Cluster() {
  const nodes = useLoad(nodesOf, []);
  useEvery(REFRESH_SECONDS, nodes.reload, []);
  return html`<${Loaded} load=${nodes} what="Asking for the nodes">${(found) => (found === null ? html`<${Alone} />` : html`<${Nodes} nodes=${found} reload=${nodes.reload} />`)}<//>`;
}

function Alone() {
  const status = useLoad((signal) => get("v1/status", {}, { signal }), []);
  return html`<${Page} title="Cluster" about="This server works alone.">
    <${Panel}><${Empty} title="One server, no other nodes">
      Several servers over one object store share the queues, and take over from each other. Start each of them with a name and the same store:
    <//>
    <pre class="example">jjq serve --node node-1 --cold s3://bucket/prefix
jjq serve --node node-2 --cold s3://bucket/prefix --listen 127.0.0.1:7585</pre><//>
    <${Loaded} load=${status} what="Asking the server">${({ nodes: [one] }) => html`<${Panel} title="This server">
      <dl class="facts">
        <dt>Version</dt><dd>${one.version}</dd>
        <dt>Runs for</dt><dd>${span(one.uptime_seconds)}</dd>
        <dt>Queues</dt><dd>${whole(one.figures.queues)}, with ${count(one.figures.subscribers, "subscriber")}</dd>
        <dt>In memory</dt><dd>${bytes(one.figures.hot_bytes)}</dd>
        <dt>Not in cold storage yet</dt><dd>${bytes(one.figures.exposed_bytes)}, the oldest for ${span(one.figures.exposed_seconds)}</dd>
      </dl>
    <//>`}<//>
  <//>`;
}

function Nodes({ nodes, reload }) {
  const [asked, ask] = useState(null);
  const moves = useMoves(reload);
  const most = (field) => Math.max(1, ...nodes.map((node) => node.load[field]));
  const bars = { history_bytes: [most("history_bytes"), "history", bytes], memory_bytes: [most("memory_bytes"), "memory", bytes], traffic: [most("traffic"), "traffic", rate] };
  const alive = nodes.filter((node) => node.alive).length;
  return html`<${Page} title="Cluster" about=${`${count(nodes.length, "node")}, ${whole(alive)} alive`}
    actions=${html`<${Button} kind="main" disabled=${moves.running} onClick=${() => ask({ what: "rebalance" })}>Plan a rebalance<//>`}>
    ${moves.list.length > 0 && html`<${Moves} moves=${moves} />`}
    <div class="cards">${nodes.map((node) => html`<${Panel} title=${node.id} note=${node.address}
      actions=${html`${node.draining && html`<${Badge} tone="warn">draining<//>`}<${Badge} tone=${node.alive ? "good" : "bad"}>${node.alive ? "alive" : "dead"}<//>`}>
      ${Object.entries(bars).map(([field, [top, label, format]]) => html`<div class="load"><span>${label}</span>
        <span class="meter"><span style=${{ width: `${(100 * node.load[field]) / top}%` }}></span></span><span class="right">${format(node.load[field])}</span></div>`)}
      <p class="note">${count(node.load.shards, "shard")} · journal on ${node.journal === "s3" ? "object storage" : "disk"} · version ${node.version} · runs for ${span(node.uptime_seconds)}</p>
      <div class="buttons">
        ${!node.alive && html`<${Button} kind="small danger" onClick=${() => ask({ what: "take-over", node })}>Take over its queues<//>`}
        ${node.alive && (node.draining
          ? html`<${Button} kind="small" onClick=${() => attempt(async () => { await post(at`v1/nodes/${node.id}/drain`, { undo: true }); say(`${node.id} takes new queues again.`); reload(); })}>End draining<//>`
          : html`<${Button} kind="small" disabled=${moves.running || nodes.length < 2} onClick=${() => ask({ what: "drain", node })}>Drain<//>`)}
      </div>
    <//>`)}</div>
    <${Shards} nodes=${nodes} moves=${moves} />
    ${asked && asked.what === "rebalance" && html`<${Rebalance} moves=${moves} onClose=${() => ask(null)} />`}
    ${asked && asked.what === "drain" && html`<${Drain} node=${asked.node} moves=${moves} reload=${reload} onClose=${() => ask(null)} />`}
    ${asked && asked.what === "take-over" && html`<${TakeOver} node=${asked.node} reload=${reload} onClose=${() => ask(null)} />`}
  <//>`;
}

// The plan is shown first; only then can it be run.
function Rebalance({ moves, onClose }) {
  const plan = useLoad((signal) => get("v1/plan", {}, { signal }), []);
  return html`<${Dialog} title="Rebalance: the plan" onClose=${onClose} wide>
    <${Loaded} load=${plan} what="Planning">${(found) => (found.moves.length === 0
      ? html`<${Empty} title="Nothing to move">The nodes carry about the same.<//>`
      : html`<${RebalancePlan} plan=${found} />
        <${Form} verb=${`Move ${movesInWords(found.moves)}`} onCancel=${onClose} submit=${async () => { moves.run("Rebalance", found.moves); onClose(); }} />`)}<//>
  <//>`;
}

function Drain({ node, moves, reload, onClose }) {
  const act = async () => {
    await post(at`v1/nodes/${node.id}/drain`, {});
    reload();
    const { moves: now } = await get("v1/plan", { leaving: node.id });
    now.length ? moves.run(`Drain ${node.id}`, now) : say(`${node.id} gets no new queues; it has none to move.`);
  };
  return html`<${Confirm} title=${`Drain ${node.id}`} verb=${`Drain ${node.id}`} retype=${node.id} onClose=${onClose} act=${act}
    plan=${(signal) => get("v1/plan", { leaving: node.id }, { signal })}
    show=${(found) => html`<p><b>${node.id}</b> gets no new queues, and <b>${movesInWords(found.moves)}</b> ${found.moves.length === 1 ? "moves" : "move"} to other nodes. Nothing is lost; pushes to each queue pause for well under a second.</p>
      <${RebalancePlan} plan=${found} />`} />`;
}

function TakeOver({ node, reload, onClose }) {
  const order = (dry_run, accept_loss) => post(at`v1/nodes/${node.id}/take-over`, { dry_run, accept_loss });
  return html`<${Confirm} title=${`Take over from ${node.id}`} verb="Take over" retype=${node.id} onClose=${onClose} plan=${() => order(true, true)}
    act=${async (found) => { const done = await order(false, found.lost.length > 0); say(`${count(done.queues.length, "queue")} taken over.`); reload(); }}
    show=${(found) => html`<p>${count(found.queues.length, "queue")} of <b>${node.id}</b> will be served by the node that answers: ${found.queues.join(", ") || "none"}.</p>
      ${found.lost.length > 0
        ? html`<p class="refused">What is only on the disk of ${node.id} is <b>lost</b>: ${found.lost.map((each) => `${each.queue} from offset ${whole(each.first_offset)} on`).join(", ")}.</p>`
        : html`<p>Nothing is lost.</p>`}`} />`;
}

function Shards({ nodes, moves }) {
  const [search, setSearch] = useState("");
  const [moving, move] = useState(null);
  const shards = useLoad((signal) => all("v1/shards", "shards", { signal }), [moves.done]);
  const found = useMemo(() => (shards.data || []).filter((shard) => `${shard.queue} ${shard.node}`.toLowerCase().includes(search.toLowerCase())), [shards.data, search]);
  const columns = useMemo(() => [
    { id: "queue", label: "Queue", cell: (shard) => html`<a href=${to("queues", shard.queue)}>${shard.queue}</a>`, sort: (shard) => shard.queue },
    { id: "range", label: "Offsets", from: "mid", cell: (shard) => `${whole(shard.first_offset)} – ${shard.next_offset === null ? "the end" : whole(shard.next_offset - 1)}`, sort: (shard) => shard.first_offset },
    { id: "node", label: "Node", cell: (shard) => shard.node, sort: (shard) => shard.node },
    { id: "epoch", label: "Epoch", align: "right", width: "80px", from: "wide", cell: (shard) => whole(shard.epoch), sort: (shard) => shard.epoch },
    { id: "history", label: "History", align: "right", width: "110px", from: "mid", cell: (shard) => bytes(shard.load.history_bytes), sort: (shard) => shard.load.history_bytes },
    { id: "traffic", label: "Traffic", align: "right", width: "110px", from: "wide", cell: (shard) => `${short(shard.load.traffic)}/s`, sort: (shard) => shard.load.traffic },
    { id: "move", label: "", width: "90px", align: "right", cell: (shard) => html`<${Button} kind="small" aria-label=${`Move ${shard.queue}`} disabled=${moves.running} onClick=${() => move(shard)}>Move<//>` },
  ], [moves.running]);
  return html`<${Panel} title="Shards" note="which node serves which part of which queue" actions=${html`<${Search} value=${search} onInput=${setSearch} label="Search shards" />`} flush>
    <${Loaded} load=${shards} what="Loading shards">${() => html`<${Table} label="Shards" columns=${columns} rows=${found} rowKey=${(shard) => `${shard.queue} ${shard.first_offset}`} height="50vh"
      empty=${html`<${Empty} title=${search ? "No shard fits" : "No queues yet"} />`} />`}<//>
    ${moving && html`<${MoveOne} shard=${moving} nodes=${nodes} moves=${moves} onClose=${() => move(null)} />`}
  <//>`;
}

function MoveOne({ shard, nodes, moves, onClose }) {
  const others = nodes.filter((node) => node.alive && node.id !== shard.node);
  const [target, choose] = useState(others[0] ? others[0].id : "");
  return html`<${Dialog} title=${`Move ${shard.queue}`} onClose=${onClose}>
    <div class="plan"><p>Offsets ${whole(shard.first_offset)} – ${shard.next_offset === null ? "the end" : whole(shard.next_offset - 1)}, ${bytes(shard.load.history_bytes)} of history, now served by <b>${shard.node}</b>. Nothing is lost; pushes pause for well under a second.</p></div>
    <${Form} verb="Move" ready=${Boolean(target)} onCancel=${onClose} submit=${async () => { moves.run(`Move ${shard.queue}`, [{ shard, to: target }]); onClose(); }}>
      <${Select} label="To" value=${target} options=${others.map((node) => [node.id, node.id])} onInput=${choose} hint=${others.length ? "" : "there is no other node that is alive"} />
    <//>
  <//>`;
}
