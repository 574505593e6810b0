// One subscriber: where it stands, its lag over time, and what can be done with it.
import { html, useState } from "../../vendor/preact.js";
import { at, post } from "../../core/api.js";
import { short, span, whole } from "../../core/format.js";
import { to } from "../../core/route.js";
import { Badge, Button, Time } from "../../parts/base.js";
import { Icon } from "../../parts/icon.js";
import { Plot } from "../../parts/plot.js";
import { attempt, say } from "../../parts/toast.js";
import { DeleteSubscriber, Seek } from "./dialogs.js";


export function SubscriberView({ subscriber, past, onClose, onChange, bare }) {
  const [dialog, open] = useState("");
  const turn = (verb, told) => attempt(async () => {
    await post(at`v1/queues/${subscriber.queue}/subscribers/${subscriber.name}/` + verb);
    say(told);
    onChange();
  });
  const gone = () => {
    onClose();
    onChange();
  };
  return html`<div class="element">
    ${!bare && html`<header class="row">
      <h2 class="grow">${subscriber.name}</h2>
      <${Button} kind="quiet icon" aria-label="Close" onClick=${onClose}><${Icon} name="close" /><//>
    </header>`}
    <dl class="facts">
      <dt>Queue</dt><dd><a href=${to("queues", subscriber.queue)}>${subscriber.queue}</a></dd>
      <dt>State</dt><dd>${subscriber.asleep ? html`<${Badge}>asleep<//>` : html`<${Badge} tone="good">awake<//>`}</dd>
      <dt>Next offset</dt><dd><a href=${to("queues", subscriber.queue, { start: `offset:${subscriber.offset}` })}>${whole(subscriber.offset)}</a> <span class="dim">in block ${whole(subscriber.block)}</span></dd>
      <dt>Behind</dt><dd>${whole(subscriber.lag)} elements, ${span(subscriber.lag_seconds)}</dd>
      <dt>Began at</dt><dd class="mono">${subscriber.start}</dd>
      <dt>Created</dt><dd><${Time} at=${subscriber.created} /></dd>
    </dl>
    <div class="row">
      <${Button} kind="main" onClick=${() => open("seek")}>Move…<//>
      ${subscriber.asleep
        ? html`<${Button} onClick=${() => turn("wakeup", `${subscriber.name} is awake: its block is loaded`)}>Wake<//>`
        : html`<${Button} onClick=${() => turn("sleep", `${subscriber.name} sleeps: its place stays, its block may leave memory`)}>Sleep<//>`}
      <${Button} onClick=${() => open("delete")}>Delete…<//>
    </div>
    <div class="plots">
      <${Plot} title="Elements behind" times=${past.times} series=${[{ label: "elements", values: past.lag }]} format=${(n) => (n === null ? "–" : `${short(n)} el.`)} span=${300} />
      <${Plot} title="Time behind" times=${past.times} series=${[{ label: "age of the next element", values: past.seconds, colour: "s5" }]} format=${span} span=${300} />
    </div>
    ${dialog === "seek" && html`<${Seek} subscriber=${subscriber} onClose=${() => open("")} onDone=${onChange} />`}
    ${dialog === "delete" && html`<${DeleteSubscriber} subscriber=${subscriber} onClose=${() => open("")} onDone=${gone} />`}
  </div>`;
}
