// Queues: all of them, however many; create one, change it, delete it.
import { html, useMemo, useState } from "../vendor/preact.js";
import { all } from "../core/api.js";
import { bytes, count, rate, short, span, whole } from "../core/format.js";
import { useLoad, usePages } from "../core/load.js";
import { useQueueFigures } from "../core/rates.js";
import { go, refine, to } from "../core/route.js";
import { Ago, Badge, Button, Empty, Loaded, Page, Panel, Search } from "../parts/base.js";
import { Form, Text } from "../parts/form.js";
import { Icon } from "../parts/icon.js";
import { Table } from "../parts/table.js";
import { Create } from "./queue/settings.js";

const sizeOf = (row) => row.next_offset - row.first_offset;

export function Queues({ query }) {
  const [find, search] = useState(query.find || "");
  const [seen, setSeen] = useState([]);
  const queues = usePages((signal, grown) => all("v1/queues", "queues", { signal, grown }), []);
  const groups = useLoad((signal) => all("v1/groups", "groups", { signal }).catch(() => []), []);
  const live = useQueueFigures(seen);
  const counts = useMemo(() => tally(groups.data || []), [groups.data]);
  const rows = useMemo(
    () => (queues.data || []).filter((row) => row.name.toLowerCase().includes(find.toLowerCase())).map((row) => ({ ...row, groups: counts[row.name] || 0 })),
    [queues.data, counts, find],
  );
  const columns = useMemo(() => makeColumns(live), [live]);
  const creating = query.create === "1";
  return html`<${Page} title="Queues" about=${queues.data ? `${count(queues.data.length, "queue")}${queues.growing ? " so far…" : ""}` : ""}
    actions=${html`<${Search} value=${find} label="Find a queue" onInput=${search} />
      <${Button} kind="main" onClick=${() => refine({ create: 1 })}><${Icon} name="plus" />Create<//>`}>
    <${Panel} flush>
      <${Loaded} load=${queues}>
        ${() => html`<${Table} label="Queues" columns=${columns} rows=${rows} rowKey=${(row) => row.name} height="calc(100vh - 150px)"
          order=${{ id: "name", down: false }} seen=${(some) => setSeen(some.slice(0, 60).map((row) => row.name))}
          empty=${find
            ? html`<${Empty} title="No queue has that in its name" action=${html`<${Button} onClick=${() => search("")}>Show all<//>`} />`
            : html`<${Empty} title="No queue yet" action=${html`<${Button} kind="main" onClick=${() => refine({ create: 1 })}>Create a queue<//>`}>
              A queue is an ordered list of elements that stays for ever. Many can read it, each at a place of its own.<//>`} />`}
      <//>
    <//>
    ${queues.error && queues.error.forbidden && html`<${ByName} />`}
    ${creating && html`<${Create} onClose=${() => refine({ create: "" })} />`}
  <//>`;
}

// A key that may not list all queues may still open some.
function ByName() {
  const [name, setName] = useState("");
  return html`<${Panel} title="Open a queue by its name">
    <${Form} verb="Open" ready=${name.trim() !== ""} submit=${async () => go("queues", name.trim())}><${Text} label="Name" value=${name} onInput=${setName} /><//>
  <//>`;
}

function tally(groups) {
  const found = {};
  for (const group of groups) found[group.queue] = (found[group.queue] || 0) + 1;
  return found;
}

function makeColumns(live) {
  const now = (row) => live[row.name] || row;
  return [
    { id: "name", label: "Name", sort: (row) => row.name, cell: (row) => html`<a href=${to("queues", row.name)} title=${row.name}>${row.name}</a>` },
    { id: "content", label: "Content", width: "84px", from: "mid", sort: (row) => row.content, cell: (row) => html`<${Badge}>${row.content}<//>` },
    { id: "elements", label: "Elements", align: "right", width: "130px", sort: sizeOf, cell: (row) => whole(sizeOf({ ...row, ...now(row) })) },
    { id: "rate", label: "Pushed", align: "right", width: "90px", cell: (row) => (live[row.name] ? rate(live[row.name].rate) : "…") },
    { id: "last", label: "Last push", align: "right", from: "mid", width: "120px", cell: (row) => (live[row.name] ? html`<${Ago} at=${live[row.name].last_push} />` : "…") },
    { id: "hot", label: "Not in history", align: "right", from: "wide", width: "128px", cell: (row) => `${short(now(row).next_offset - now(row).cold_offset)} el.` },
    { id: "subscribers", label: "Subscribers", align: "right", from: "mid", width: "110px", sort: (row) => row.subscribers,
      cell: (row) => (row.subscribers ? html`<a href=${to("subscribers", { queue: row.name })}>${whole(row.subscribers)}</a>` : html`<span class="dim">0</span>`) },
    { id: "groups", label: "Groups", align: "right", from: "wide", width: "84px", sort: (row) => row.groups,
      cell: (row) => (row.groups ? whole(row.groups) : html`<span class="dim">0</span>`) },
    { id: "blocks", label: "Blocks of", align: "right", from: "wide", width: "156px", sort: (row) => row.block_bytes, cell: (row) => `${bytes(row.block_bytes)} or ${span(row.block_seconds)}` },
    { id: "created", label: "Created", align: "right", from: "wide", width: "120px", sort: (row) => row.created, cell: (row) => html`<${Ago} at=${row.created} />` },
  ];
}
