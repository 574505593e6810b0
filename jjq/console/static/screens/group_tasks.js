// The tasks of a group, page by page, and verbs for those that are selected, or for all in a state.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { get, post } from "../core/api.js";
import { bytes, count, whole } from "../core/format.js";
import { useLoad } from "../core/load.js";
import { to } from "../core/route.js";
import { Button, Empty, Failure, Loading, Panel, Time } from "../parts/base.js";
import { Dialog } from "../parts/dialog.js";
import { Form, Text } from "../parts/form.js";
import { ABOUT, STATES, State, total } from "../parts/states.js";
import { Table } from "../parts/table.js";
import { say } from "../parts/toast.js";

const PAGE = 200;
const CUT = 200; // characters of a value in the list
const LIVE = 2000; // tasks that are loaded anew when the group changes; longer lists stay as they are
const BATCH = 1000; // tasks of one request

// Which states a verb is for, and what it does to them.
export const VERBS = {
  kick: { label: "Kick", from: ["buried"], after: "ready again" },
  release: { label: "Release", from: ["taken"], after: "ready again, and handed out to others" },
  bury: { label: "Bury", from: ["ready", "taken", "delayed"], after: "set aside until they are kicked", reason: true },
  delete: { label: "Delete", from: ["ready", "taken", "delayed", "buried"], after: "done without being worked on", danger: true },
};

// Change these tasks; how many were changed, and what was refused. A task is released in the name of its session.
export async function changeTasks(path, verb, tasks, reason) {
  const sum = { changed: 0, errors: [] };
  const sessions = verb === "release" ? [...new Set(tasks.map((task) => task.session))] : [undefined];
  for (const session of sessions) {
    const mine = session === undefined ? tasks : tasks.filter((task) => task.session === session);
    for (let first = 0; first < mine.length; first += BATCH) {
      const body = { tasks: mine.slice(first, first + BATCH).map(({ id, attempt }) => (verb === "release" ? { id, attempt } : { id })) };
      if (session) body.session = session;
      if (reason) body.reason = reason;
      const done = await post(`${path}/${verb}`, body);
      sum.changed += done.changed;
      sum.errors.push(...done.errors);
    }
  }
  return sum;
}

// … and all tasks in a state: in one request where the server has one, else page by page.
async function changeAll(path, verb, state, reason, progress) {
  if (verb === "kick") return post(`${path}/kick`, { count: 2 ** 31 });
  if (verb === "release") return { changed: (await post(`${path}/release-all`)).count, errors: [] };
  const sum = { changed: 0, errors: [] };
  let token = "";
  do {
    const page = await get(`${path}/tasks`, { state, cut: 0, page_size: BATCH, page_token: token });
    const done = page.tasks.length ? await changeTasks(path, verb, page.tasks, reason) : sum;
    if (done !== sum) {
      sum.changed += done.changed;
      sum.errors.push(...done.errors);
    }
    progress(sum.changed);
    token = page.next_page_token;
  } while (token);
  return sum;
}

export function told(verb, { changed, errors }) {
  const text = `${VERBS[verb].label}: ${count(changed, "task")} changed.`;
  errors.length ? say(`${text} ${count(errors.length, "task")} not: ${errors[0].message}`, "bad") : say(text);
}

// The first `count` tasks in a state, or a little more, and the token of those that follow.
async function firstTasks(path, state, count, signal) {
  const found = { tasks: [], token: "" };
  do {
    const size = Math.min(BATCH, count - found.tasks.length);
    const page = await get(`${path}/tasks`, { state, cut: CUT, page_size: size, page_token: found.token }, { signal });
    found.tasks.push(...page.tasks);
    found.token = page.next_page_token;
  } while (found.token && found.tasks.length < count);
  return found;
}

export function Tasks({ path, queue, group, counts, state, turn, changed }) {
  const [chosen, choose] = useState(new Set());
  const [asked, ask] = useState(null);
  const wanted = useRef(PAGE);
  useEffect(() => {
    wanted.current = PAGE;
    choose(new Set());
  }, [state]); // before the load below, which goes by it
  const load = useLoad((signal) => firstTasks(path, state, wanted.current, signal), [path, state]);
  const pages = load.data || { tasks: [], token: "" };
  useEffect(() => { if (turn && wanted.current <= LIVE) load.reload(); }, [turn]);
  const more = () => {
    wanted.current = pages.tasks.length + (pages.tasks.length < LIVE ? PAGE : BATCH);
    load.reload();
  };
  const tasks = pages.tasks;
  const picked = tasks.filter((task) => chosen.has(task.id));
  const toggle = (id) => choose((before) => { const next = new Set(before); next.has(id) ? next.delete(id) : next.add(id); return next; });
  const every = tasks.length > 0 && picked.length === tasks.length;
  const columns = useMemo(() => [
    { id: "pick", width: "46px",
      label: html`<input type="checkbox" aria-label="Select all that are shown" checked=${every} onChange=${() => choose(new Set(every ? [] : tasks.map((task) => task.id)))} />`,
      cell: (task) => html`<input type="checkbox" aria-label=${`Select task ${task.id}`} checked=${chosen.has(task.id)} onChange=${() => toggle(task.id)} />` },
    { id: "id", label: "Task", width: "80px", cell: (task) => html`<a href=${to("groups", queue, group, "tasks", String(task.id))}>${whole(task.id)}</a>`, sort: (task) => task.id },
    { id: "state", label: "State", width: "104px", cell: (task) => html`<${State} name=${task.state} />`, sort: (task) => task.state },
    { id: "attempt", label: "Attempts", width: "96px", align: "right", from: "mid", cell: (task) => whole(task.attempt), sort: (task) => task.attempt },
    { id: "key", label: "Key", width: "120px", from: "wide", cell: (task) => task.key ?? html`<span class="dim">–</span>`, sort: (task) => task.key },
    { id: "value", label: "Value", cell: (task) => html`<span class="mono" title=${task.value_bytes ? bytes(task.value_bytes) : undefined}>${task.value}${task.value_bytes ? "…" : ""}</span>` },
    { id: "worker", label: "Worker", width: "90px", from: "wide", cell: (task) => task.worker || html`<span class="dim">–</span>`, sort: (task) => task.worker },
    { id: "until", label: "Until", width: "172px", from: "wide", cell: (task) => html`<${Time} at=${task.until} millis=${false} />`, sort: (task) => task.until },
    { id: "reason", label: "Reason", width: "17%", from: "mid", cell: (task) => task.reason || html`<span class="dim">–</span>`, sort: (task) => task.reason },
  ], [tasks, chosen, every]);
  const known = state ? counts[state] ?? 0 : total(counts);
  const actions = picked.length > 0
    ? html`<span class="note">${count(picked.length, "task")} selected</span>${Object.entries(VERBS).map(([verb, { label, from }]) => {
        const fit = picked.filter((task) => from.includes(task.state));
        return html`<${Button} kind="small" disabled=${fit.length === 0} onClick=${() => ask({ verb, tasks: fit, number: fit.length })}>${label}<//>`;
      })}`
    : state && state !== "done" && known > 0 && Object.entries(VERBS).filter(([, { from }]) => from.includes(state)).map(([verb, { label }]) =>
        html`<${Button} kind="small" onClick=${() => ask({ verb, state, number: known })}>${label} all ${whole(known)}<//>`);
  return html`<${Panel} title=${state ? `Tasks that are ${state}` : "Tasks"} note=${known > tasks.length ? `the first ${whole(tasks.length)} of ${whole(known)}` : ""} actions=${actions} flush>
    ${load.error && html`<${Failure} error=${load.error} retry=${load.reload} />`}
    ${load.loading && load.data === undefined ? html`<${Loading} what="Loading tasks" />` : html`
      <${Table} label="Tasks" columns=${columns} rows=${tasks} rowKey=${(task) => task.id} height="calc(100vh - 330px)"
        empty=${html`<${Empty} title=${state ? `No task is ${state}` : "No tasks"}>${state ? `${state[0].toUpperCase()}${state.slice(1)} tasks ${ABOUT[state]}.` : "Push elements to the queue: each is a task."}<//>`} />`}
    ${pages.token && html`<div class="row more-row"><${Button} onClick=${more} disabled=${load.loading}>Load more<//></div>`}
    ${asked && html`<${Bulk} ...${asked} path=${path} onClose=${() => ask(null)} changed=${() => { choose(new Set()); changed(); }} />`}
  <//>`;
}

// The question before a verb for many tasks: it names how many, and what becomes of them.
function Bulk({ verb, tasks, state, number, path, onClose, changed }) {
  const [reason, setReason] = useState("");
  const [done, progress] = useState(0);
  const { label, after, danger, reason: reasoned } = VERBS[verb];
  const submit = async () => {
    told(verb, tasks ? await changeTasks(path, verb, tasks, reason) : await changeAll(path, verb, state, reason, progress));
    onClose();
    changed();
  };
  const states = tasks ? STATES.map((name) => [name, tasks.filter((task) => task.state === name).length]).filter(([, n]) => n) : [[state, number]];
  return html`<${Dialog} title=${`${label} ${count(number, "task")}`} onClose=${onClose}>
    <div class="plan">
      <p><b>${count(number, "task")}</b> (${states.map(([name, n]) => `${whole(n)} ${name}`).join(", ")}) will be ${after}.</p>
      ${done > 0 && html`<p role="status">${count(done, "task")} so far…</p>`}
    </div>
    <${Form} submit=${submit} verb=${`${label} ${count(number, "task")}`} danger=${danger} onCancel=${onClose}>
      ${reasoned && html`<${Text} label="Reason" value=${reason} onInput=${setReason} hint="kept in the ledger; may be empty" />`}
    <//>
  <//>`;
}
