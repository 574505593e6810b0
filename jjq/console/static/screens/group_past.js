// The queue at time T: how the tasks were at a time, and what changed between two times.
import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { get } from "../core/api.js";
import { count, span, time as clock, whole } from "../core/format.js";
import { useLoad } from "../core/load.js";
import { to } from "../core/route.js";
import { Button, Empty, Failure, Loaded, Loading, Panel, Time } from "../parts/base.js";
import { Check, Select } from "../parts/form.js";
import { Plot } from "../parts/plot.js";
import { STATES, State, StateTiles } from "../parts/states.js";
import { Table } from "../parts/table.js";

const STEPS = 1000; // of the slider
const REST_MS = 150; // the slider rests for so long before the server is asked
const LISTED = 1000;
const COLOURS = { take: "s3", ack: "s6", nack: "s5", timeout: "bad", bury: "s4", kick: "s1", release: "s2", delete: "dim", purge: "dim" };

function useRested(value) {
  const [rested, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => set(value), REST_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return rested;
}

export function Past({ path, queue, group, created }) {
  const [end, setEnd] = useState(() => Date.now());
  const start = useMemo(() => Math.min(Date.parse(created), end - 1000), [created, end]);
  const [at, setAt] = useState(STEPS);
  const [since, setSince] = useState(0);
  const [comparing, compare] = useState(false);
  const [state, setState] = useState("");
  const moment = (step) => start + ((end - start) * step) / STEPS;
  const iso = (step) => new Date(moment(step)).toISOString();
  const asked = useRested(JSON.stringify({ time: iso(at), since: comparing ? iso(Math.min(since, at)) : undefined, state: state || undefined, limit: LISTED }));
  const activity = useLoad((signal) => get(`${path}/activity`, { start: new Date(start).toISOString(), end: new Date(end).toISOString() }, { signal }), [path, start, end]);
  const past = useLoad((signal) => get(`${path}/past`, JSON.parse(asked), { signal }), [path]);
  useEffect(() => past.reload(), [asked]);
  const move = (step) => { setAt(step); if (step < since) setSince(step); };
  return html`
    <${Panel} title="The queue at a time" note=${`from the group's creation, over ${span((end - start) / 1000)}`}
      actions=${html`<${Button} kind="small" onClick=${() => { setEnd(Date.now()); setAt(STEPS); }}>Up to now<//>`}>
      <${Loaded} load=${activity} what="Reading the ledger">${(found) => html`<${Activity} found=${found} />`}<//>
      <div class="slider">
        <label for="past-at">Time</label>
        <input id="past-at" type="range" min="0" max=${STEPS} value=${at} aria-valuetext=${clock(moment(at))} onInput=${(event) => move(Number(event.target.value))} />
        <output for="past-at">${clock(moment(at))}</output>
      </div>
      ${comparing && html`<div class="slider">
        <label for="past-since">Since</label>
        <input id="past-since" type="range" min="0" max=${STEPS} value=${since} aria-valuetext=${clock(moment(since))} onInput=${(event) => setSince(Math.min(Number(event.target.value), at))} />
        <output for="past-since">${clock(moment(since))}</output>
      </div>`}
      <${Check} label="Compare with an earlier time" checked=${comparing} onInput=${compare} />
    <//>
    ${past.error && html`<${Panel}><${Failure} error=${past.error} retry=${past.reload} /><//>`}
    ${past.data === undefined && !past.error && html`<${Panel}><${Loading} what="Reading the ledger" /><//>`}
    ${past.data && html`
      <${StateTiles} counts=${past.data.counts} before=${past.data.counts_since} />
      ${past.data.changes && html`<${Changes} changes=${past.data.changes} from=${past.data.since} to=${past.data.time} />`}
      <${Listed} past=${past.data} queue=${queue} group=${group} state=${state} setState=${setState} />`}`;
}

function Activity({ found }) {
  const first = Date.parse(found.start) / 1000;
  const names = Object.keys(found.events);
  if (names.length === 0) return html`<p class="dim">Nothing has happened to any task yet.</p>`;
  const times = found.events[names[0]].map((_, n) => first + n * found.bucket_seconds);
  const series = names.map((name) => ({ label: name, values: found.events[name], colour: COLOURS[name] || "dim" }));
  return html`<${Plot} title=${`Steps of tasks, in parts of ${span(found.bucket_seconds)}`} times=${times} series=${series} format=${(n) => whole(n)} height=${120} />`;
}

// What changed, as flows from state to state.
function Changes({ changes, from, to: until }) {
  const sum = changes.reduce((n, each) => n + each.count, 0);
  const most = Math.max(1, ...changes.map((each) => each.count));
  return html`<${Panel} title="What changed" note=${`${count(sum, "task")} between ${clock(from)} and ${clock(until)}`}>
    ${changes.length === 0 ? html`<p class="dim">Nothing: every task was at both times as it is shown.</p>` : html`
    <ul class="flows">${[...changes].sort((a, b) => b.count - a.count).map((each) => html`<li>
      <span class="ends">${each.before ? html`<${State} name=${each.before} />` : html`<span class="task-state">new</span>`}
        <span aria-label="to" class="dim">→</span>
        ${each.after ? html`<${State} name=${each.after} />` : html`<span class="task-state">left behind</span>`}</span>
      <span class=${`flow ${each.after || ""}`}><span style=${{ width: `${(100 * each.count) / most}%` }}></span></span>
      <span class="right">${count(each.count, "task")}${each.before === each.after && html` <span class="dim">there and back</span>`}</span>
    </li>`)}</ul>`}
  <//>`;
}

function Listed({ past, queue, group, state, setState }) {
  const columns = useMemo(() => [
    { id: "task", label: "Task", width: "90px", cell: (task) => html`<a href=${to("groups", queue, group, "tasks", String(task.task))}>${whole(task.task)}</a>`, sort: (task) => task.task },
    ...(past.since ? [{ id: "before", label: "Was", width: "112px", cell: (task) => html`<${State} name=${task.before} />`, sort: (task) => task.before }] : []),
    { id: "state", label: past.since ? "Became" : "State", width: "112px", cell: (task) => html`<${State} name=${task.state} />`, sort: (task) => task.state },
    { id: "attempt", label: "Attempts", width: "104px", align: "right", from: "mid", cell: (task) => whole(task.attempt), sort: (task) => task.attempt },
    { id: "since", label: "Since", width: "216px", from: "mid", cell: (task) => html`<${Time} at=${task.since} />`, sort: (task) => task.since },
    { id: "worker", label: "Worker", width: "140px", from: "wide", cell: (task) => task.worker || html`<span class="dim">–</span>`, sort: (task) => task.worker },
    { id: "reason", label: "Reason", cell: (task) => task.reason || html`<span class="dim">–</span>`, sort: (task) => task.reason },
  ], [past]);
  const full = past.tasks.length === LISTED;
  return html`<${Panel} title=${past.since ? "Tasks that changed" : "Tasks at that time"} note=${full ? `the first ${whole(LISTED)}` : count(past.tasks.length, "task")} flush
    actions=${html`<${Select} label=${html`<span class="unseen">State</span>`} value=${state} options=${[["", "all states"], ...STATES.map((name) => [name, name])]} onInput=${setState} />`}>
    <${Table} label="Tasks at that time" columns=${columns} rows=${past.tasks} rowKey=${(task) => task.task} height="50vh"
      empty=${html`<${Empty} title="No tasks">${past.since ? "No task changed between these times." : "At that time there was none in this state."}<//>`} />
  <//>`;
}
