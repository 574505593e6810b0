// One worker group: its tasks, its past, its settings, and what can be done with all of it.
import { html, useState } from "../vendor/preact.js";
import { at, del, get, patch, post } from "../core/api.js";
import { count, span, whole } from "../core/format.js";
import { useLedger } from "../core/ledger.js";
import { useLoad } from "../core/load.js";
import { go, refine, to } from "../core/route.js";
import { Badge, Button, Failure, Loaded, Page, Panel, Time } from "../parts/base.js";
import { Confirm } from "../parts/dialog.js";
import { Choice, Form, Select, Text } from "../parts/form.js";
import { STATES, StateTiles, inWords } from "../parts/states.js";
import { attempt, say } from "../parts/toast.js";
import { Tasks } from "./group_tasks.js";
import { Past } from "./group_past.js";

const OPEN = STATES.filter((name) => name !== "done");
const VIEWS = [["tasks", "Tasks"], ["past", "Time machine"], ["settings", "Settings"]];

export function Group({ params: { queue, group }, query }) {
  const path = at`v1/queues/${queue}/groups/${group}`;
  const [asked, ask] = useState("");
  const [turn, next] = useState(0);
  const info = useLoad((signal) => get(path, {}, { signal }), [path]);
  const figures = useLoad((signal) => get(`${path}/statistics`, {}, { signal }), [path, info.data]);
  const reload = () => { info.reload(); next((n) => n + 1); };
  useLedger(queue, group, reload);
  const view = query.view || "tasks";
  const pause = (paused) => attempt(async () => {
    await post(`${path}/${paused ? "pause" : "resume"}`);
    say(paused ? "Paused: no task is handed out." : "Tasks are handed out again.");
    info.reload();
  });
  if (info.error && info.data === undefined)
    return html`<${Page} title=${group} crumbs=${[["Groups", to("groups")]]}><${Panel}><${Failure} error=${info.error} retry=${info.reload} /><//><//>`;
  const data = info.data || { paused: false, waiting: 0, tasks: {}, settings: {} };
  const actions = html`
    <${Button} onClick=${() => pause(!data.paused)}>${data.paused ? "Resume" : "Pause"}<//>
    <${Button} onClick=${() => ask("release")} disabled=${!data.tasks.taken}>Release all<//>
    <${Button} onClick=${() => ask("purge")} disabled=${!OPEN.some((name) => data.tasks[name])}>Purge<//>
    <${Button} onClick=${() => ask("delete")}>Delete group<//>`;
  return html`<${Page} title=${html`${group}${data.paused && html` <${Badge} tone="warn">paused<//>`}`} crumbs=${[["Groups", to("groups")], [queue, to("queues", queue)]]}
    about=${info.data && html`${count(data.waiting, "worker")} waiting${figures.data && figures.data.oldest_ready_seconds > 0 && html` · oldest ready task ${span(figures.data.oldest_ready_seconds)}`}${figures.data && figures.data.oldest_taken_seconds > 0 && html` · longest taken ${span(figures.data.oldest_taken_seconds)}`}`}
    actions=${actions}>
    ${view !== "past" && html`<${StateTiles} counts=${data.tasks} chosen=${view === "tasks" ? query.state : ""}
      choose=${(state) => refine({ view: "", state: query.state === state && view === "tasks" ? "" : state })} />`}
    <div class="row tabs"><${Choice} label="What to see" value=${view} options=${VIEWS} onInput=${(name) => refine({ view: name === "tasks" ? "" : name })} /></div>
    ${view === "tasks" && html`<${Tasks} path=${path} queue=${queue} group=${group} counts=${data.tasks} state=${query.state || ""} turn=${turn} changed=${reload} />`}
    ${view === "past" && info.data && html`<${Past} path=${path} queue=${queue} group=${group} created=${data.created} />`}
    ${view === "settings" && html`<${Loaded} load=${info}>${(found) => html`<${Settings} path=${path} info=${found} figures=${figures.data} changed=${info.reload} />`}<//>`}
    ${asked && html`<${Ask} what=${asked} path=${path} id=${`${queue}/${group}`} onClose=${() => ask("")} changed=${reload} />`}
  <//>`;
}

// What cannot be taken back: the numbers are asked for at that moment, and named.
function Ask({ what, path, id, onClose, changed }) {
  const plan = (signal) => get(path, {}, { signal });
  const acts = {
    purge: {
      title: `Purge ${id}`, verb: "Purge", retype: id,
      show: ({ tasks }) => html`<p><b>${count(OPEN.reduce((sum, name) => sum + tasks[name], 0), "task")}</b> will be done without being worked on: ${inWords(tasks, OPEN)}.</p>
        <p>Workers that hold some of them cannot ack them any more. The elements of the queue stay.</p>`,
      act: async () => say(`${count((await post(`${path}/purge`)).count, "task")} purged.`),
    },
    release: {
      title: `Release all taken tasks of ${id}`, verb: "Release all", retype: "",
      show: ({ tasks }) => html`<p><b>${count(tasks.taken, "taken task")}</b> will be ready again, and handed out to others.</p>
        <p>Workers that still hold them may do the same work twice, and their acks are refused.</p>`,
      act: async () => say(`${count((await post(`${path}/release-all`)).count, "task")} released.`),
    },
    delete: {
      title: `Delete group ${id}`, verb: "Delete", retype: id,
      show: ({ tasks }) => html`<p>The group is forgotten, with <b>${inWords(tasks, OPEN)}</b>.</p>
        <p>The queue, and the ledger of what happened, stay.${tasks.taken > 0 && html` <b>${count(tasks.taken, "task")}</b> ${tasks.taken === 1 ? "is" : "are"} being worked on.`}</p>`,
      act: async ({ tasks }) => {
        await del(path, { force: tasks.taken > 0 ? "true" : "" });
        say(`Group ${id} is deleted.`);
        go("groups");
      },
    },
  };
  const { act, ...rest } = acts[what];
  return html`<${Confirm} ...${rest} plan=${plan} onClose=${onClose} act=${async (found) => { await act(found); if (what !== "delete") changed(); }} />`;
}

const FIELDS = [
  ["ttr", "Time to run (seconds)", "a task that takes longer is handed out again"],
  ["ttl", "Time to live (seconds)", "empty: for ever"],
  ["delay", "Delay (seconds)", "before a new task is ready"],
  ["priority", "Priority", "a smaller number is taken first"],
  ["max_attempts", "Most attempts", "empty: no limit"],
  ["capacity", "Capacity (tasks)", "empty: no limit"],
  ["per_key", "Tasks per key at a time", "empty: no limit"],
  ["rate", "Takes per key and second", "empty: no limit"],
];

function Settings({ path, info, figures, changed }) {
  const shown = (value) => (value === null ? "" : String(value));
  const first = Object.fromEntries([...FIELDS.map(([name]) => [name, shown(info.settings[name])]), ["on_exhausted", info.settings.on_exhausted]]);
  const [form, set] = useState(first);
  const changes = Object.fromEntries(Object.keys(first).filter((name) => form[name] !== first[name])
    .map((name) => [name, name === "on_exhausted" ? form[name] : form[name] === "" ? null : Number(form[name])]));
  const submit = async () => {
    await patch(path, changes);
    say("Changed; it holds from now on.");
    changed();
  };
  return html`<div class="cards">
    <${Panel} title="Settings" note=${`driver ${info.settings.driver}`}>
      <${Form} submit=${submit} verb="Change" ready=${Object.keys(changes).length > 0}>
        <div class="fields">
          ${FIELDS.map(([name, label, hint]) => html`<${Text} label=${label} hint=${hint} value=${form[name]} inputmode="decimal" onInput=${(value) => set({ ...form, [name]: value })} />`)}
          <${Select} label="After the last attempt" value=${form.on_exhausted} options=${[["bury", "bury the task"], ["drop", "drop the task"]]} onInput=${(value) => set({ ...form, on_exhausted: value })} />
        </div>
      <//>
    <//>
    <${Panel} title="Figures">
      <dl class="facts">
        <dt>Created</dt><dd><${Time} at=${info.created} millis=${false} /></dd>
        <dt>Started at</dt><dd>${info.start}, offset ${whole(info.first)}</dd>
        <dt>Backoff</dt><dd>${span(info.settings.backoff.base)}, × ${info.settings.backoff.factor} for each failure, at most ${span(info.settings.backoff.max)}</dd>
        ${figures && Object.entries(figures.calls).map(([name, calls]) => html`<dt>${name}</dt><dd>${count(calls, "task")}</dd>`)}
      </dl>
    <//>
  </div>`;
}
