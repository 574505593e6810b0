// Overview: how the server, or all servers, are right now.
import { html } from "../vendor/preact.js";
import { useCell } from "../core/cell.js";
import { byteRate, bytes, count, rate, short, span } from "../core/format.js";
import { history, sample, trouble, useLive } from "../core/live.js";
import { to } from "../core/route.js";
import { Badge, Empty, Failure, Loading, Page, Panel, Tile, Tiles } from "../parts/base.js";
import { Plot } from "../parts/plot.js";

const sum = (nodes, name) => nodes.reduce((total, node) => total + (node.figures[name] || 0), 0);
const most = (nodes, name) => nodes.reduce((high, node) => Math.max(high, node[name]), 0);
const column = (pick) => history.map((each) => (each.nodes && each.rates ? pick(each) ?? null : null));

export function Overview() {
  useLive([], () => {});
  const now = useCell(sample);
  const error = useCell(trouble);
  if (!now) return html`<${Page} title="Overview">${error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}<//>`;
  const { nodes, rates } = now;
  const silent = nodes.filter((node) => node.error);
  const lossy = sum(nodes, "queues_with_loss");
  return html`<${Page} title="Overview" about=${about(nodes)}>
    <${Tiles}>
      <${Tile} label="Pushed" value=${rates ? rate(rates.pushed) : "…"} note=${nodes.length > 1 ? "elements, at this node" : "elements, all queues"} />
      <${Tile} label="Delivered" value=${rates ? rate(rates.popped + rates.taken + rates.read) : "…"} note=${nodes.length > 1 ? "at this node" : "popped, taken, read"} />
      <${Tile} label="Longest lag" value=${span(most(nodes, "lag_seconds"))} note=${count(most(nodes, "lag_elements"), "element")} />
      <${Tile} label="Exposed" value=${bytes(sum(nodes, "exposed_bytes"))} note="not yet in history" />
      <${Tile} label="Queues" value=${short(sum(nodes, "queues"))} note=${lossy ? count(lossy, "queue with loss").replace("losss", "loss") : "none with loss"} tone=${lossy ? "bad" : ""} />
      <${Tile} label="Nodes" value=${`${nodes.length - silent.length} of ${nodes.length}`} note=${silent.length ? "some do not answer" : "all answer"} tone=${silent.length ? "bad" : ""} />
    <//>
    ${sum(nodes, "queues") === 0 && html`<${Panel}><${Empty} title="No queue yet"
      action=${html`<a class="button main" href=${to("queues", { create: 1 })}>Create a queue</a>`}>A queue is an ordered list of elements that stays for ever.<//><//>`}
    <${Plots} />
    <${Nodes} nodes=${nodes} />
  <//>`;
}

function about(nodes) {
  const [first] = nodes;
  if (!first) return "";
  return nodes.length === 1 ? `Release ${first.version}, running for ${span(first.uptime_seconds)}` : `A cluster of ${nodes.length} nodes; rates and times are those of the node that this page asks`;
}

function Plots() {
  const times = history.map((each) => each.at);
  const plots = [
    ["Elements per second", rate, [
      { label: "pushed", values: column(({ rates }) => rates.pushed) },
      { label: "popped", values: column(({ rates }) => rates.popped + rates.taken) },
      { label: "read", values: column(({ rates }) => rates.read) }]],
    ["Time of a push", span, [
      { label: "half of them", values: column(({ latency }) => latency.push_p50) },
      { label: "99 of 100", values: column(({ latency }) => latency.push_p99), colour: "s3" }]],
    ["Lag of the slowest subscriber", span, [{ label: "seconds behind", values: column(({ nodes }) => most(nodes, "lag_seconds")), colour: "s5" }]],
    ["Exposed bytes", bytes, [{ label: "not yet in history", values: column(({ nodes }) => sum(nodes, "exposed_bytes")), colour: "s4" }]],
    ["Bytes per second", byteRate, [
      { label: "received", values: column(({ rates }) => rates.received_bytes) },
      { label: "sent", values: column(({ rates }) => rates.sent_bytes) }]],
    ["Calls per second", rate, [
      { label: "all", values: column(({ rates }) => rates.calls) },
      { label: "refused", values: column(({ rates }) => rates.failed), colour: "s5" }]],
  ];
  return html`<div class="cards thirds">
    ${plots.map(([title, format, series]) => html`<${Panel}><${Plot} title=${title} times=${times} series=${series} format=${format} span=${300} /><//>`)}
  </div>`;
}

function Nodes({ nodes }) {
  return html`<${Panel} title="Nodes" note="figures of each, every two seconds" flush>
    <div class="table"><table>
      <thead><tr><th scope="col">Node</th><th scope="col">State</th><th scope="col" class="right mid">Journal</th><th scope="col" class="right">Exposed</th>
        <th scope="col" class="right mid">Hot blocks</th><th scope="col" class="right wide">Disk free</th><th scope="col" class="right mid">Cold store</th><th scope="col" class="right wide">Up</th></tr></thead>
      <tbody>${nodes.map((node) => html`<tr key=${node.node}>
        <td>${node.node || "this server"}</td>
        <td><${NodeState} node=${node} /></td>
        <td class="right mid">${bytes(node.figures.journal_bytes)}</td>
        <td class="right">${bytes(node.figures.exposed_bytes)}</td>
        <td class="right mid">${bytes(node.figures.hot_bytes)}</td>
        <td class="right wide">${bytes(node.figures.disk_free_bytes)}</td>
        <td class="right mid">${node.error ? "–" : span(node.cold_seconds)}</td>
        <td class="right wide">${span(node.uptime_seconds)}</td>
      </tr>`)}</tbody>
    </table></div>
  <//>`;
}

function NodeState({ node }) {
  if (node.error) return html`<${Badge} tone="bad" title=${node.error}>no answer<//>`;
  if (node.cold_error) return html`<${Badge} tone="warn" title=${node.cold_error}>cold store does not answer<//>`;
  return html`<${Badge} tone="good">well<//>`;
}
