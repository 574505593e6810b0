// JSON as a tree that opens on demand: long lists come in parts, long texts are cut, numbers stay as they were sent.
import { html, useState } from "../vendor/preact.js";
import { bytes, count, cut } from "../core/format.js";

const STEP = 100; // entries of a list or an object that are shown at once
const LINE = 400; // characters of a text that are shown at once

// A number that JavaScript cannot hold, as its digits.
class Exact {
  constructor(digits) {
    this.digits = digits;
  }
}

// The value of a JSON text; undefined if it is none.
export function parse(text) {
  try {
    return JSON.parse(text, (name, value, context) =>
      typeof value === "number" && context && String(value) !== context.source && !Number.isSafeInteger(value) && /^-?\d+$/.test(context.source)
        ? new Exact(context.source)
        : value);
  } catch {
    return undefined;
  }
}

// The JSON text of a value that `parse` made, with the same digits.
export const write = (value, indent) =>
  JSON.stringify(value, (name, each) => (each instanceof Exact ? (JSON.rawJSON ? JSON.rawJSON(each.digits) : each.digits) : each), indent);

export const Json = ({ value, open = 2 }) => html`<div class="json"><${Node} value=${value} open=${open} /></div>`;

function Node({ name, value, open }) {
  if (value === null || typeof value !== "object" || value instanceof Exact)
    return html`<div class="leaf"><${Name} name=${name} /><${Leaf} value=${value} /></div>`;
  return html`<${Branch} name=${name} value=${value} open=${open} />`;
}

const Name = ({ name }) => (name === undefined ? null : html`<span class="name">${name}</span><span class="dim">: </span>`);

function Branch({ name, value, open }) {
  const list = Array.isArray(value);
  const names = list ? value : Object.keys(value);
  const [shown, show] = useState(open > 0 && names.length <= STEP);
  const [most, more] = useState(STEP);
  const about = list ? count(names.length, "item") : count(names.length, "field");
  const entries = list ? value.slice(0, most).map((each, n) => [n, each]) : names.slice(0, most).map((each) => [each, value[each]]);
  return html`<div class="branch">
    <button type="button" class="twist" aria-expanded=${shown} onClick=${() => show(!shown)}>
      <span class="mark" aria-hidden="true">${shown ? "▾" : "▸"}</span><${Name} name=${name} />
      <span class="dim">${list ? "[" : "{"}${shown ? "" : ` ${about} ${list ? "]" : "}"}`}</span>
    </button>
    ${shown && html`<div class="inner">
      ${entries.map(([each, inner]) => html`<${Node} key=${each} name=${each} value=${inner} open=${open - 1} />`)}
      ${names.length > most && html`<button type="button" class="more" onClick=${() => more(most + STEP * 10)}>${count(names.length - most, "more entry").replace("entrys", "entries")}…</button>`}
    </div><div class="dim close">${list ? "]" : "}"}</div>`}
  </div>`;
}

function Leaf({ value }) {
  if (value instanceof Exact) return html`<span class="number">${value.digits}</span>`;
  if (typeof value === "string") return html`<${Long} text=${value} kind="string" quote='"' />`;
  return html`<span class=${value === null ? "null" : typeof value}>${String(value)}</span>`;
}

// A text that may be long: its beginning, and all of it on demand.
export function Long({ text, kind = "", quote = "", most = LINE }) {
  const [whole, show] = useState(false);
  const long = text.length > most;
  return html`<span class=${kind}>${quote}${whole || !long ? text : cut(text, most)}${whole || !long ? quote : ""}</span>
    ${long && html` <button type="button" class="more" onClick=${() => show(!whole)}>${whole ? "less" : `all ${bytes(new Blob([text]).size)}`}</button>`}`;
}
