// One task: what it is, and its whole life from the ledger.
import { html, useState } from "../vendor/preact.js";
import { at, get } from "../core/api.js";
import { count, span, time, whole } from "../core/format.js";
import { useLedger } from "../core/ledger.js";
import { useLoad } from "../core/load.js";
import { to } from "../core/route.js";
import { Button, Failure, Loaded, Page, Panel, Time } from "../parts/base.js";
import { Dialog } from "../parts/dialog.js";
import { Form, Text } from "../parts/form.js";
import { Json, Long, parse } from "../parts/json.js";
import { State } from "../parts/states.js";
import { VERBS, changeTasks, told } from "./group_tasks.js";

const WORDS = {
  pushed: "Pushed", create: "Seen by the group", seek: "The group began anew", take: "Taken", ack: "Acked", nack: "Failed", release: "Given back",
  touch: "Held for longer", bury: "Buried", kick: "Kicked", delete: "Deleted", timeout: "Not done in time",
  expire: "Its time to live was over", orphan: "Its worker was gone", purge: "Purged",
};

export function Task({ params: { queue, group, task } }) {
  const path = at`v1/queues/${queue}/groups/${group}`;
  const [verb, ask] = useState("");
  const info = useLoad((signal) => get(`${path}/${at`tasks/${task}`}`, {}, { signal }), [path, task]);
  const life = useLoad((signal) => get(`${path}/${at`tasks/${task}/history`}`, {}, { signal }), [path, task]);
  const reload = () => { info.reload(); life.reload(); };
  useLedger(queue, group, reload);
  const crumbs = [["Groups", to("groups")], [`${queue}/${group}`, to("groups", queue, group)]];
  if (info.error && info.data === undefined)
    return html`<${Page} title=${`Task ${task}`} crumbs=${crumbs}><${Panel}><${Failure} error=${info.error} retry=${info.reload} /><//><//>`;
  const fits = info.data ? Object.keys(VERBS).filter((each) => VERBS[each].from.includes(info.data.state)) : [];
  return html`<${Page} title=${html`Task ${whole(Number(task))} ${info.data && html`<${State} name=${info.data.state} />`}`} crumbs=${crumbs}
    about=${info.data && html`${count(info.data.attempt, "attempt")}${info.data.state === "taken" && info.data.worker && ` · held by ${info.data.worker}`}${info.data.state !== "done" && info.data.state !== "taken" && info.data.reason && ` · ${info.data.reason}`}`}
    actions=${fits.map((each) => html`<${Button} onClick=${() => ask(each)}>${VERBS[each].label}<//>`)}>
    <div class="halves">
      <${Panel} title="Life" note="every step that the ledger has">
        <${Loaded} load=${life} what="Reading the ledger">${(found) => info.data && html`<${Life} pushed=${info.data.created} found=${found} />`}<//>
      <//>
      <${Panel} title="Element" actions=${html`<a class="button small" href=${to("queues", queue, { start: `offset:${task}` })}>In the queue</a>`}>
        <${Loaded} load=${info}>${(found) => html`<${Element} task=${found} />`}<//>
      <//>
    </div>
    ${verb && html`<${OneVerb} verb=${verb} task=${info.data} path=${path} onClose=${() => ask("")} changed=${reload} />`}
  <//>`;
}

function Element({ task }) {
  const value = parse(task.value);
  const headers = Object.entries(task.headers);
  return html`<dl class="facts">
    <dt>Pushed</dt><dd><${Time} at=${task.created} /></dd>
    <dt>Key</dt><dd>${task.key === null ? html`<span class="dim">none</span>` : html`<${Long} text=${task.key} kind="mono" />`}</dd>
    <dt>Priority</dt><dd>${whole(task.priority)}</dd>
    ${task.until && html`<dt>${task.state === "taken" ? "Deadline" : "Ready at"}</dt><dd><${Time} at=${task.until} /></dd>`}
    ${task.state === "taken" && task.session && html`<dt>Session</dt><dd class="mono">${task.session}</dd>`}
    ${headers.map(([name, text]) => html`<dt class="mono">${name}</dt><dd><${Long} text=${text} kind="mono" /></dd>`)}
  </dl>
  <h3 class="under">Value</h3>
  ${value !== undefined && typeof value === "object" ? html`<${Json} value=${value} />` : html`<pre><${Long} text=${task.value} most=${4000} /></pre>`}`;
}

// The bar shows how long it was in each state; the list says what happened.
function Life({ pushed, found }) {
  const steps = [{ event: "pushed", state: "ready", timestamp: pushed }, ...found.transitions.map((step) => ({ ...step, state: step.state || "ready" }))]
    .sort((a, b) => Date.parse(a.timestamp) - Date.parse(b.timestamp));
  const when = steps.map((step) => Date.parse(step.timestamp)); // milliseconds
  const over = steps[steps.length - 1].state === "done";
  const now = over ? when[when.length - 1] : Math.max(Date.now(), when[when.length - 1]);
  const parts = steps.map((step, n) => ({ state: step.state, seconds: Math.max(0, (when[n + 1] ?? now) - when[n]) / 1000 })).filter((part) => part.state !== "done");
  const sums = {};
  for (const { state, seconds } of parts) sums[state] = (sums[state] || 0) + seconds;
  const lasted = Object.entries(sums).map(([state, seconds]) => `${span(seconds)} ${state}`).join(", ");
  return html`
    <div class="state-bar tall" role="img" aria-label=${lasted}>${parts.filter((part) => part.seconds > 0).map((part) =>
      html`<span class=${part.state} style=${{ flexGrow: part.seconds * 1000 }} title=${`${span(part.seconds)} ${part.state}`}></span>`)}</div>
    <p class="note lasted">${Object.entries(sums).map(([state, seconds]) => html`<span><${State} name=${state} /> ${span(seconds)}</span>`)}</p>
    ${found.earlier > 0 && html`<p class="note">${count(found.earlier, "earlier step")} left out.</p>`}
    <ol class="life">${steps.map((step, n) => html`<li class=${step.state}>
      <span class="dot" aria-hidden="true"></span>
      <div><b>${WORDS[step.event] || step.event}</b>${step.worker && html` by ${step.worker}`}${step.attempt > 0 && step.event === "take" && html`, attempt ${whole(step.attempt)}`} <span class="now"><${State} name=${step.state} /></span>
        ${step.reason && html`<p class="reason">${step.reason}</p>`}
        ${step.until && html`<p class="note">${step.state === "taken" ? "until" : "ready at"} ${time(step.until)}</p>`}
      </div>
      <div class="when"><${Time} at=${step.timestamp} />${n > 0 && html`<span class="note">${when[n] - when[n - 1] > 0 ? `+${span((when[n] - when[n - 1]) / 1000)}` : "at once"}</span>`}</div>
    </li>`)}</ol>`;
}

function OneVerb({ verb, task, path, onClose, changed }) {
  const [reason, setReason] = useState("");
  const { label, after, danger, reason: reasoned } = VERBS[verb];
  const submit = async () => {
    told(verb, await changeTasks(path, verb, [task], reason));
    onClose();
    changed();
  };
  return html`<${Dialog} title=${`${label} task ${whole(task.id)}`} onClose=${onClose}>
    <div class="plan"><p>Task <b>${whole(task.id)}</b>, now ${task.state}, will be ${after.replace("they are", "it is")}.</p></div>
    <${Form} submit=${submit} verb=${label} danger=${danger} onCancel=${onClose}>
      ${reasoned && html`<${Text} label="Reason" value=${reason} onInput=${setReason} hint="kept in the ledger; may be empty" />`}
    <//>
  <//>`;
}
