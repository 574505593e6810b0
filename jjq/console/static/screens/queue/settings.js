// Dialogs of a queue: create, settings, purge, delete.
import { html, useState } from "../../vendor/preact.js";
import { at, del, patch, post } from "../../core/api.js";
import { bytes, count, span, time, whole } from "../../core/format.js";
import { go } from "../../core/route.js";
import { Confirm, Dialog } from "../../parts/dialog.js";
import { Choice, Field, Form, Text } from "../../parts/form.js";
import { say } from "../../parts/toast.js";

const MIB = 2 ** 20;
const number = (text) => (text.trim() === "" ? null : Number(text));

function Blocks({ size, setSize, age, setAge, hint }) {
  return html`<div class="fields">
    <${Text} label="Block size, MiB" type="number" min="0" step="any" value=${size} onInput=${setSize} hint=${hint} />
    <${Text} label="Block age, seconds" type="number" min="0" step="any" value=${age} onInput=${setAge} hint="older ones go to history" />
  </div>`;
}

const changes = (size, age) => ({
  block_bytes: number(size) === null ? null : Math.round(number(size) * MIB),
  block_seconds: number(age),
});

export function Create({ onClose }) {
  const [name, setName] = useState("");
  const [content, setContent] = useState("json");
  const [size, setSize] = useState("");
  const [age, setAge] = useState("");
  const submit = async () => {
    await post("v1/queues", { name: name.trim(), content, ...changes(size, age) });
    say(`Queue ${name.trim()} is there`);
    go("queues", name.trim());
  };
  return html`<${Dialog} title="Create a queue" onClose=${onClose}>
    <${Form} submit=${submit} verb="Create" ready=${name.trim() !== ""} onCancel=${onClose}>
      <${Text} label="Name" value=${name} onInput=${setName} autofocus maxlength="128" hint="Letters, digits, dot, underscore and hyphen. It cannot be changed later." />
      <${Field} label="Values are">
        <${Choice} label="Values are" value=${content} onInput=${setContent} options=${[["json", "JSON"], ["text", "text"], ["bytes", "bytes"]]} />
      <//>
      <${Blocks} size=${size} setSize=${setSize} age=${age} setAge=${setAge} hint="empty: the server's default" />
    <//>
  <//>`;
}

export function Settings({ queue, onClose, onDone }) {
  const [size, setSize] = useState(String(queue.block_bytes / MIB));
  const [age, setAge] = useState(String(queue.block_seconds));
  const submit = async () => {
    await patch(at`v1/queues/${queue.name}`, changes(size, age));
    say("Settings are changed");
    onDone();
    onClose();
  };
  return html`<${Dialog} title=${`Settings of ${queue.name}`} onClose=${onClose}>
    <p class="dim">Blocks go to history when they reach ${bytes(queue.block_bytes)} or ${span(queue.block_seconds)}. A change holds for blocks that are begun from now on.</p>
    <${Form} submit=${submit} verb="Save" onCancel=${onClose}>
      <${Blocks} size=${size} setSize=${setSize} age=${age} setAge=${setAge} hint="empty: as it is" />
    <//>
    <p class="note under">id ${queue.id}, created ${time(queue.created)}, values are ${queue.content}</p>
  <//>`;
}

export function Purge({ queue, onClose, onDone }) {
  const order = (dry_run) => post(at`v1/queues/${queue.name}/purge`, { dry_run });
  return html`<${Confirm} title=${`Purge ${queue.name}?`} verb="Purge the queue" retype=${queue.name} onClose=${onClose} plan=${() => order(true)}
    act=${async () => { await order(false); say(`Nobody has anything left to do in ${queue.name}`); onDone(); }}
    show=${({ groups, subscribers }) => html`
      ${groups.length + subscribers.length === 0 && html`<p>Nothing: the queue has no worker group and no subscriber.</p>`}
      <ul>${groups.map((group) => html`<li>Group <b>${group.name}</b>: ${count(group.tasks, "task")} will be done without being worked on${group.taken > 0 && `, ${whole(group.taken)} of them now with workers`}.</li>`)}
      ${subscribers.map((each) => html`<li>Subscriber <b>${each.name}</b>: ${count(each.passed, "element")} will be passed over.</li>`)}</ul>
      <p>What is pushed until you confirm counts, too. The elements stay: they can be read, and a subscriber or a group can be moved back to them.</p>`} />`;
}

export function Delete({ queue, onClose }) {
  const path = at`v1/queues/${queue.name}`;
  const act = async (plan) => {
    await del(path);
    say(`Queue ${queue.name} is deleted; until ${time(plan.until, { millis: false })} it can be brought back`);
    go("queues");
  };
  return html`<${Confirm} title=${`Delete ${queue.name}?`} verb="Delete the queue" retype=${queue.name} onClose=${onClose} act=${act}
    plan=${(signal) => del(path, { dry_run: true }, { signal })}
    show=${(plan) => html`
      <p>${count(queue.next_offset - queue.first_offset, "element")}, ${count(queue.subscribers, "subscriber")} and all worker groups of this queue can no longer be reached.</p>
      <p>Until <b>${time(plan.until, { millis: false })}</b> the queue can be brought back: <code>jjq queue undelete ${queue.name}</code>. After that its files are removed.</p>`} />`;
}
