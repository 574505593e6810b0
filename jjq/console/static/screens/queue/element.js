// One element: where, when, headers, and all of its value.
import { html, useState } from "../../vendor/preact.js";
import { bytes, cut, span, whole } from "../../core/format.js";
import { useLoad } from "../../core/load.js";
import { Button, Failure, Loading, Time } from "../../parts/base.js";
import { download } from "../../parts/download.js";
import { Choice } from "../../parts/form.js";
import { Icon } from "../../parts/icon.js";
import { Json, write } from "../../parts/json.js";
import { say } from "../../parts/toast.js";
import { ObjectView, objectOf } from "./object.js";
import { keyOf, sizeOf, textOf, wholeElement } from "./fetch.js";

const TREE_BYTES = 4 * 2 ** 20; // a larger value is shown as text
const TEXT_CHARS = 50_000; // that are shown at once

export function ElementView({ queue, content, element, onClose, bare }) {
  const [all, wantAll] = useState(0);
  const needs = element.partial || all > 0;
  const load = useLoad((signal) => (needs ? wholeElement(queue, element.offset, signal) : element), [queue, element.offset, needs]);
  const shown = load.data || element;
  const named = objectOf(shown);
  return html`<div class="element">
    ${!bare && html`<header class="row">
      <h2 class="grow">Element ${whole(element.offset)}</h2>
      <${Button} kind="quiet icon" aria-label="Close" onClick=${onClose}><${Icon} name="close" /><//>
    </header>`}
    <dl class="facts">
      <dt>Time</dt><dd><${Time} at=${element.timestamp} /> <span class="dim">${span((Date.now() - Date.parse(element.timestamp)) / 1000)} ago</span></dd>
      <dt>Key</dt><dd class="mono">${keyOf(element) ?? html`<span class="dim">none</span>`}</dd>
      <dt>Size</dt><dd>${bytes(sizeOf(shown))}</dd>
      <${Headers} element=${shown} />
    </dl>
    ${load.error && html`<${Failure} error=${load.error} retry=${load.reload} />`}
    ${load.loading && !load.data ? html`<${Loading} />` : named ? html`<${ObjectView} key=${element.offset} queue=${queue} offset=${element.offset} named=${named} />` : html`<${Value} content=${content} element=${shown} queue=${queue} loadAll=${() => wantAll(1)} />`}
  </div>`;
}

function Headers({ element }) {
  const found = [...Object.entries(element.headers || {}), ...Object.entries(element.headers_base64 || {}).map(([name, text]) => [name, `${text} (base64)`])];
  return found.map(([name, text]) => html`<dt class="mono" title="header">${name}</dt><dd class="mono">${cut(text, 2000)}</dd>`);
}

function Value({ content, element, queue, loadAll }) {
  const isTree = content === "json" && element.value_cut === undefined && sizeOf(element) <= TREE_BYTES;
  const [form, setForm] = useState("tree");
  const [most, more] = useState(TEXT_CHARS);
  if (element.value_cut !== undefined)
    return html`<pre class="value">${element.value_cut}…</pre><p><${Button} onClick=${loadAll}>Load all ${bytes(element.value_bytes)}<//></p>`;
  const text = content === "json" ? write(element.value, form === "tree" || isTree ? 2 : 0) : textOf(element);
  const plain = () => (content === "json" ? write(element.value) : textOf(element));
  const copy = async () => {
    await navigator.clipboard.writeText(plain());
    say("Copied");
  };
  return html`
    <div class="row value-bar">
      ${isTree && html`<${Choice} label="Show the value as" value=${form} onInput=${setForm} options=${[["tree", "Tree"], ["text", "Text"]]} />`}
      ${element.value_base64 !== undefined && html`<span class="note">bytes, as base64</span>`}
      <span class="grow"></span>
      <${Button} kind="small" onClick=${copy}>Copy<//>
      <${Button} kind="small" onClick=${() => download(`${queue}-${element.offset}.${content === "json" ? "json" : "txt"}`, plain(), "text/plain")}>Save<//>
    </div>
    ${isTree && form === "tree"
      ? html`<div class="value"><${Json} key=${element.offset} value=${element.value} /></div>`
      : html`<pre class="value">${cut(text, most)}</pre>
        ${text.length > most && html`<button type="button" class="more" onClick=${() => more(most * 10)}>Show more: ${bytes(text.length - most)} left</button>`}`}`;
}
