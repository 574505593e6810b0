// Dialogs of subscribers: create, seek, delete. Each shows first what would happen.
import { html, useState } from "../../vendor/preact.js";
import { at, del, get, post } from "../../core/api.js";
import { count, whole } from "../../core/format.js";
import { useLoad } from "../../core/load.js";
import { Confirm, Dialog } from "../../parts/dialog.js";
import { Field, Form, Text } from "../../parts/form.js";
import { say } from "../../parts/toast.js";
import { Plan, StartInput, usePlan } from "./start.js";

const path = (each) => at`v1/queues/${each.queue}/subscribers/${each.name}`;

export function CreateSubscriber({ queue: given, onClose, onDone }) {
  const [queue, setQueue] = useState(given || "");
  const [name, setName] = useState("");
  const [start, setStart] = useState("beginning");
  const known = useLoad((signal) => (given ? null : get("v1/queues", { page_size: 1000 }, { signal })), []);
  const plan = usePlan(queue && start ? `${queue} ${start}` : "", (text, signal) => {
    const [asked, place] = text.split(" ");
    return post(at`v1/queues/${asked}/subscribers`, { start: place, dry_run: true }, { signal });
  });
  const submit = async () => {
    const made = await post(at`v1/queues/${queue}/subscribers`, { name: name.trim() || null, start });
    say(`Subscriber ${made.name} stands at offset ${whole(made.offset)}`);
    onDone(made);
    onClose();
  };
  return html`<${Dialog} title="Create a subscriber" onClose=${onClose}>
    <${Form} submit=${submit} verb="Create" ready=${!!plan.data} onCancel=${onClose}>
      ${!given && html`<${Field} label="Queue">${(id) => html`<input id=${id} list=${`${id}-list`} value=${queue} autocomplete="off" autofocus onInput=${(event) => setQueue(event.target.value)} />
        <datalist id=${`${id}-list`}>${((known.data && known.data.queues) || []).map((each) => html`<option value=${each.name} />`)}</datalist>`}<//>`}
      <${Text} label="Name" value=${name} onInput=${setName} autofocus=${!!given} placeholder="the server makes one" maxlength="128" />
      <${StartInput} label="Begin at" onStart=${setStart} />
      <${Plan} plan=${plan} />
    <//>
  <//>`;
}

export function Seek({ subscriber, onClose, onDone }) {
  const [start, setStart] = useState("beginning");
  const plan = usePlan(start, (place, signal) => post(`${path(subscriber)}/seek`, { start: place, dry_run: true }, { signal }));
  const submit = async () => {
    const moved = await post(`${path(subscriber)}/seek`, { start });
    say(`${subscriber.name} stands at offset ${whole(moved.offset)}`);
    onDone(moved);
    onClose();
  };
  return html`<${Dialog} title=${`Move ${subscriber.name}`} onClose=${onClose}>
    <p class="dim">It stands at offset ${whole(subscriber.offset)} of ${subscriber.queue}. Readers that are connected go on from the new place at once.</p>
    <${Form} submit=${submit} verb=${plan.data ? `Move to offset ${whole(plan.data.offset)}` : "Move"} ready=${!!plan.data} onCancel=${onClose}>
      <${StartInput} label="To" onStart=${setStart} />
      <${Plan} plan=${plan} was=${subscriber.offset} />
    <//>
  <//>`;
}

export function DeleteSubscriber({ subscriber, onClose, onDone }) {
  const act = async () => {
    await del(path(subscriber));
    say(`Subscriber ${subscriber.name} is deleted`);
    onDone();
  };
  return html`<${Confirm} title=${`Delete ${subscriber.name}?`} verb="Delete the subscriber" retype=${subscriber.name} onClose=${onClose} act=${act}
    plan=${(signal) => get(path(subscriber), {}, { signal })}
    show=${(now) => html`<p>The place of ${now.name} in ${now.queue}, offset ${whole(now.offset)}, is forgotten. ${count(now.lag, "element")} that it has not seen stay in the queue.</p>
      <p>Whoever pops by this name gets an error from then on.</p>`} />`;
}
