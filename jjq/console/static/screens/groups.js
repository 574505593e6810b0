// All worker groups: how many tasks are in which state, and a way to make a group.
import { html, useMemo, useState } from "../vendor/preact.js";
import { all, at, post } from "../core/api.js";
import { count, whole } from "../core/format.js";
import { useLive } from "../core/live.js";
import { useLoad } from "../core/load.js";
import { go, to } from "../core/route.js";
import { Badge, Button, Empty, Loaded, Page, Panel, Search } from "../parts/base.js";
import { Dialog } from "../parts/dialog.js";
import { Form, Select, Text } from "../parts/form.js";
import { STATES, StateBar } from "../parts/states.js";
import { Table } from "../parts/table.js";
import { say } from "../parts/toast.js";

const QUEUES = 30; // whose groups are live at a time

const number = (name) => ({
  id: name, label: name[0].toUpperCase() + name.slice(1), align: "right", width: "88px", from: name === "delayed" || name === "taken" ? "wide" : name === "done" ? "mid" : "",
  cell: (group) => whole(group.tasks[name]), sort: (group) => group.tasks[name],
});

const COLUMNS = [
  { id: "name", label: "Group", cell: (group) => html`<a href=${to("groups", group.queue, group.name)}>${group.name}</a>${group.paused && html` <${Badge} tone="warn">paused<//>`}`, sort: (group) => group.name },
  { id: "queue", label: "Queue", cell: (group) => html`<a href=${to("queues", group.queue)}>${group.queue}</a>`, sort: (group) => group.queue },
  { id: "bar", label: "Tasks by state", from: "mid", cell: (group) => html`<${StateBar} counts=${group.tasks} />` },
  ...STATES.map(number),
  { id: "waiting", label: "Workers waiting", align: "right", width: "146px", from: "wide", cell: (group) => whole(group.waiting), sort: (group) => group.waiting },
  { id: "driver", label: "Driver", width: "104px", from: "wide", cell: (group) => group.settings.driver, sort: (group) => group.settings.driver },
];

export function Groups() {
  const [search, setSearch] = useState("");
  const [making, make] = useState(false);
  const groups = useLoad((signal) => all("v1/groups", "groups", { signal }), []);
  const [seen, setSeen] = useState([]);
  const [live, hear] = useState({});
  useLive([], ({ queues }) => hear(Object.fromEntries(queues.flatMap((queue) => (queue.groups || []).map((group) => [`${queue.name}/${group.name}`, group])))), seen);
  const found = useMemo(
    () => (groups.data || []).filter((group) => group.id.toLowerCase().includes(search.toLowerCase())).map((group) => ({ ...group, ...live[group.id] })),
    [groups.data, live, search],
  );
  const button = html`<${Button} kind="main" onClick=${() => make(true)}>New group<//>`;
  return html`<${Page} title="Groups" about="Workers take the elements of a queue as tasks, one worker at a time."
    actions=${html`<${Search} value=${search} onInput=${setSearch} label="Search groups" />${button}`}>
    <${Loaded} load=${groups} what="Loading groups">
      ${(list) => list.length === 0
        ? html`<${Panel}><${Empty} title="No worker groups yet" action=${button}>
            A group hands out each element of a queue to one worker, until it is done, and keeps what happened to it for ever.
          <//><//>`
        : html`<${Panel} title=${count(found.length, "group")} flush>
            <${Table} label="Groups" columns=${COLUMNS} rows=${found} rowKey=${(group) => group.id} height="calc(100vh - 190px)"
              seen=${(some) => setSeen([...new Set(some.map((group) => group.queue))].slice(0, QUEUES))}
              empty=${html`<${Empty} title="No group fits">No name has “${search}” in it.<//>`} />
          <//>`}
    <//>
    ${making && html`<${NewGroup} onClose=${() => make(false)} />`}
  <//>`;
}

function NewGroup({ onClose }) {
  const [form, set] = useState({ queue: "", name: "", start: "beginning", driver: "fifo", ttr: "60", max_attempts: "", capacity: "" });
  const queues = useLoad((signal) => all("v1/queues", "queues", { signal }), []);
  const change = (name) => (value) => set({ ...form, [name]: value });
  const queue = form.queue || (queues.data && queues.data[0] ? queues.data[0].name : "");
  const limited = form.driver === "limfifottl";
  const submit = async () => {
    const settings = { driver: form.driver, ttr: Number(form.ttr) };
    if (form.max_attempts) settings.max_attempts = Number(form.max_attempts);
    if (limited) settings.capacity = Number(form.capacity);
    const made = await post(at`v1/queues/${queue}/groups`, { name: form.name, start: form.start, settings });
    say(`Group ${made.id} hands out ${count(made.tasks.ready, "task")}.`);
    onClose();
    go("groups", made.queue, made.name);
  };
  return html`<${Dialog} title="New group" onClose=${onClose}>
    <${Form} submit=${submit} verb="Create" ready=${Boolean(queue && form.name && form.ttr && (!limited || form.capacity))} onCancel=${onClose}>
      <div class="fields">
        <${Select} label="Queue" value=${queue} options=${(queues.data || []).map((each) => [each.name, each.name])} onInput=${change("queue")} />
        <${Text} label="Name" value=${form.name} onInput=${change("name")} hint="letters, digits, . _ -" />
        <${Text} label="Start" value=${form.start} onInput=${change("start")} hint="beginning, end, offset:N, ago:1h, a time" />
        <${Select} label="Driver" value=${form.driver} options=${DRIVERS} onInput=${change("driver")} />
        <${Text} label="Time to run (seconds)" value=${form.ttr} onInput=${change("ttr")} inputmode="decimal" hint="then the task is handed out again" />
        <${Text} label="Most attempts" value=${form.max_attempts} onInput=${change("max_attempts")} inputmode="numeric" hint="then it is buried; empty: no limit" />
        ${limited && html`<${Text} label="Capacity (tasks)" value=${form.capacity} onInput=${change("capacity")} inputmode="numeric" hint="a push to a full group waits" />`}
      </div>
    <//>
  <//>`;
}

const DRIVERS = [
  ["fifo", "fifo: the oldest first"],
  ["fifottl", "fifottl: priority, delay, ttl"],
  ["limfifottl", "limfifottl: … with a capacity"],
  ["utube", "utube: one at a time per key"],
  ["utubettl", "utubettl: … with priority, ttl"],
];
