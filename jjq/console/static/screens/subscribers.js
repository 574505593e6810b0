// Subscribers of all queues, or of one: how far they are behind, and where they stand.
import { html, useMemo, useState } from "../vendor/preact.js";
import { all, at } from "../core/api.js";
import { count, span, whole } from "../core/format.js";
import { usePages } from "../core/load.js";
import { useLive } from "../core/live.js";
import { refine, to } from "../core/route.js";
import { Badge, Button, Empty, Loaded, Page, Panel, Search } from "../parts/base.js";
import { Beside } from "../parts/beside.js";
import { Icon } from "../parts/icon.js";
import { Table } from "../parts/table.js";
import { CreateSubscriber } from "./subscriber/dialogs.js";
import { SubscriberView } from "./subscriber/view.js";

const KEPT = 300; // samples of each subscriber
const QUEUES = 30; // whose subscribers are live at a time
const past = new Map(); // id → {times, lag, seconds}
const NONE = { times: [], lag: [], seconds: [] };

export function Subscribers({ query }) {
  const [find, search] = useState("");
  const [creating, create] = useState(false);
  const { queue, chosen } = query;
  const load = usePages((signal, grown) => all(queue ? at`v1/queues/${queue}/subscribers` : "v1/subscribers", "subscribers", { signal, grown }), [queue]);
  const [seen, setSeen] = useState([]);
  const live = useFigures(queue ? [queue] : seen);
  const rows = useMemo(
    () => (load.data || []).filter((row) => row.id.toLowerCase().includes(find.toLowerCase())).map((row) => ({ ...row, ...live[row.id] })),
    [load.data, live, find],
  );
  const current = rows.find((row) => row.id === `${queue}/${chosen}` || row.id === chosen);
  const choose = (row) => refine({ chosen: row ? row.id : "" });
  const note = queue && html`of <a href=${to("queues", queue)}>${queue}</a> · <a href=${to("subscribers")}>show all</a>`;
  return html`<${Page} title="Subscribers" crumbs=${queue ? [["Queues", to("queues")], [queue, to("queues", queue)]] : []} about=${note || (load.data ? count(load.data.length, "subscriber") : "")}
    actions=${html`<${Search} value=${find} label="Find a subscriber" onInput=${search} />
      <${Button} kind="main" onClick=${() => create(true)}><${Icon} name="plus" />Create<//>`}>
    <div class=${current ? "split" : ""}>
      <${Panel} flush>
        <${Loaded} load=${load}>
          ${() => html`<${Table} label="Subscribers" columns=${COLUMNS} rows=${rows} rowKey=${(row) => row.id} height="calc(100vh - 150px)" order=${{ id: "seconds", down: true }}
            chosen=${current ? current.id : undefined} onChoose=${choose} seen=${(some) => setSeen([...new Set(some.map((row) => row.queue))].slice(0, QUEUES))}
            empty=${find ? html`<${Empty} title="No subscriber has that in its name" />` : html`<${Empty} title="No subscriber yet"
              action=${html`<${Button} kind="main" onClick=${() => create(true)}>Create a subscriber<//>`}>A subscriber is a named place in a queue. It pops at its own speed and never slows others.<//>`} />`}
        <//>
      <//>
      ${current && html`<${Beside} title=${current.name} View=${SubscriberView} subscriber=${current} past=${past.get(current.id) || NONE} onClose=${() => choose(null)} onChange=${load.reload} />`}
    </div>
    ${creating && html`<${CreateSubscriber} queue=${queue} onClose=${() => create(false)} onDone=${load.reload} />`}
  <//>`;
}

// id → what the newest sample says of the subscribers of these queues.
function useFigures(queues) {
  const [figures, set] = useState({});
  useLive([], (sample) => {
    const found = {};
    for (const queue of sample.queues)
      for (const each of queue.subscribers || []) {
        found[`${queue.name}/${each.name}`] = each;
        remember(`${queue.name}/${each.name}`, sample.at, each);
      }
    set(found);
  }, queues);
  return figures;
}

function remember(id, time, { lag, lag_seconds }) {
  const known = past.get(id) || { times: [], lag: [], seconds: [] };
  known.times.push(time);
  known.lag.push(lag);
  known.seconds.push(lag_seconds);
  for (const values of Object.values(known)) if (values.length > KEPT) values.shift();
  past.set(id, known);
}

const COLUMNS = [
  { id: "name", label: "Name", width: "22%", sort: (row) => row.name, cell: (row) => html`<button type="button" class="link" title=${row.name}>${row.name}</button>` },
  { id: "queue", label: "Queue", width: "20%", sort: (row) => row.queue, cell: (row) => html`<a href=${to("queues", row.queue)} onClick=${(event) => event.stopPropagation()}>${row.queue}</a>` },
  { id: "state", label: "State", width: "80px", from: "mid", sort: (row) => row.asleep, cell: (row) => (row.asleep ? html`<${Badge}>asleep<//>` : html`<${Badge} tone="good">awake<//>`) },
  { id: "lag", label: "Behind", align: "right", sort: (row) => row.lag, cell: (row) => html`${whole(row.lag)} <span class="dim">el.</span>` },
  { id: "seconds", label: "Time behind", align: "right", sort: (row) => row.lag_seconds, cell: (row) => span(row.lag_seconds) },
  { id: "offset", label: "Next offset", align: "right", from: "wide", sort: (row) => row.offset, cell: (row) => whole(row.offset) },
];
