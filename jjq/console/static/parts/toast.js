// Short messages that go by themselves; problems stay until they are closed.
import { html } from "../vendor/preact.js";
import { cell, useCell } from "../core/cell.js";
import { Icon } from "./icon.js";

const SHOWN_MS = 5000;
const toasts = cell([]);
let last = 0;

export function say(text, tone = "good") {
  const id = ++last;
  toasts.set([...toasts.value.slice(-3), { id, text, tone }]);
  if (tone !== "bad") setTimeout(() => close(id), SHOWN_MS);
}

// Run `work`; what it throws is said.
export async function attempt(work) {
  try {
    return await work();
  } catch (problem) {
    if (problem.name !== "AbortError") say(problem.detail || problem.message, "bad");
    return undefined;
  }
}

const close = (id) => toasts.set(toasts.value.filter((each) => each.id !== id));

export function Toasts() {
  const shown = useCell(toasts);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${shown.map((each) => html`<div key=${each.id} class=${`toast ${each.tone}`}>
      <span>${each.text}</span>
      <button type="button" class="button quiet icon" aria-label="Close" onClick=${() => close(each.id)}><${Icon} name="close" /></button>
    </div>`)}
  </div>`;
}
