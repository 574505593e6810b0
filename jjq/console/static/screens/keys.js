// Keys: who may do what. A key is shown once, when it is made.
import { html, useState } from "../vendor/preact.js";
import { at, del, get, key as mine, post, setKey } from "../core/api.js";
import { useCell } from "../core/cell.js";
import { byteRate, count, rate } from "../core/format.js";
import { useLoad } from "../core/load.js";
import { Ago, Badge, Button, Empty, Loaded, Page, Panel } from "../parts/base.js";
import { Confirm, Dialog } from "../parts/dialog.js";
import { Form, Text } from "../parts/form.js";
import { Table } from "../parts/table.js";
import { say } from "../parts/toast.js";

const RIGHTS = [
  ["push", "push elements"],
  ["pop", "have subscribers, and pop"],
  ["read", "replay, and look at queues"],
  ["work", "take and finish tasks"],
  ["admin", "everything"],
];

const limits = (each) => [
  each.elements_per_second ? `${rate(each.elements_per_second)} elements` : "",
  each.bytes_per_second ? byteRate(each.bytes_per_second) : "",
  each.streams ? count(each.streams, "stream") : "",
].filter(Boolean).join(", ");

export function Keys() {
  const [making, make] = useState(false);
  const [made, show] = useState(null);
  const [ending, end] = useState(null);
  const current = useCell(mine);
  const keys = useLoad((signal) => get("v1/keys", {}, { signal }).then((found) => found.keys), []);
  const columns = [
    { id: "id", label: "Key", width: "236px", cell: (each) => html`<code>${each.id}</code>${current.includes(`_${each.id}_`) && html` <${Badge} tone="accent">yours<//>`}` },
    { id: "name", label: "Name", cell: (each) => each.name || html`<span class="dim">–</span>`, sort: (each) => each.name },
    { id: "scopes", label: "May", cell: (each) => each.scopes.map((scope) => html`<${Badge} tone=${scope.startsWith("admin") ? "warn" : ""}>${scope}<//> `) },
    { id: "limits", label: "Limits of a node", from: "wide", cell: (each) => limits(each) || html`<span class="dim">none</span>` },
    { id: "created", label: "Made", width: "120px", from: "mid", cell: (each) => html`<${Ago} at=${each.created} />`, sort: (each) => each.created },
    { id: "revoke", label: "", width: "96px", align: "right", cell: (each) => html`<${Button} kind="small" aria-label=${`Revoke ${each.name || each.id}`} onClick=${() => end(each)}>Revoke<//>` },
  ];
  const button = html`<${Button} kind="main" onClick=${() => make(true)}>New key<//>`;
  return html`<${Page} title="Keys" about="What a client must show, and what it may do with it." actions=${button}>
    <${Loaded} load=${keys} what="Loading keys">${(list) => (list.length === 0
      ? html`<${Panel}><${Empty} title="Everything is open" action=${button}>
          There is no key: whoever reaches this server may do everything. With the first key, nothing is open any more but health; it must be one for admin.
        <//><//>`
      : html`<${Panel} title=${count(list.length, "key")} flush><${Table} label="Keys" columns=${columns} rows=${list} rowKey=${(each) => each.id} /><//>`)}<//>
    ${making && html`<${NewKey} first=${keys.data && keys.data.length === 0} onClose=${() => make(false)} shown=${(found) => { make(false); show(found); }} />`}
    ${made && html`<${Secret} made=${made} mustUse=${keys.data && keys.data.length === 0} onClose=${() => { show(null); keys.reload(); }} />`}
    ${ending && html`<${Confirm} title=${`Revoke ${ending.name || ending.id}`} verb="Revoke" retype=${ending.name || ending.id} onClose=${() => end(null)}
      act=${async () => { await del(at`v1/keys/${ending.id}`); say(`Key ${ending.name || ending.id} is revoked.`); keys.reload(); }}>
      <p>Key <code>${ending.id}</code> (${ending.scopes.join(", ")}) ends for good. Clients that use it are refused within five seconds, and their streams end.</p>
      ${current.includes(`_${ending.id}_`) && html`<p><b>This page uses it.</b> You will be asked for another one.</p>`}
    <//>`}
  <//>`;
}

function NewKey({ first, onClose, shown }) {
  const [name, setName] = useState("");
  const [rows, setRows] = useState([{ right: first ? "admin" : "read", pattern: "" }]);
  const [quota, setQuota] = useState({ elements_per_second: "", bytes_per_second: "", streams: "" });
  const change = (n, field, value) => setRows(rows.map((row, at_) => (at_ === n ? { ...row, [field]: value } : row)));
  const submit = async () => {
    const scopes = rows.map(({ right, pattern }) => (pattern ? `${right}:${pattern}` : right));
    const limit = Object.fromEntries(Object.entries(quota).filter(([, text]) => text).map(([field, text]) => [field, Number(text)]));
    shown(await post("v1/keys", { name, scopes, ...limit }));
  };
  return html`<${Dialog} title="New key" onClose=${onClose}>
    ${first && html`<p>The first key closes the server for everybody who shows none. It must have the right <b>admin</b> for all queues.</p>`}
    <${Form} submit=${submit} verb="Create" onCancel=${onClose}>
      <${Text} label="Name" value=${name} onInput=${setName} hint="for people: who uses it" />
      <fieldset class="scopes"><legend>May</legend>
        ${rows.map((row, n) => html`<div class="scope">
          <select aria-label=${`Right ${n + 1}`} value=${row.right} onChange=${(event) => change(n, "right", event.target.value)}>
            ${RIGHTS.map(([right, text]) => html`<option value=${right} selected=${right === row.right}>${right}: ${text}</option>`)}
          </select>
          <input aria-label=${`Queues of right ${n + 1}`} placeholder="all queues" value=${row.pattern} spellcheck=${false} onInput=${(event) => change(n, "pattern", event.target.value)} />
          <${Button} kind="quiet icon" aria-label=${`Remove right ${n + 1}`} disabled=${rows.length === 1} onClick=${() => setRows(rows.filter((_, at_) => at_ !== n))}>✕<//>
        </div>`)}
        <div class="row"><${Button} kind="small" onClick=${() => setRows([...rows, { right: "push", pattern: "" }])}>Another right<//>
          <span class="hint">Queues: a name, or a pattern such as orders-*</span></div>
      </fieldset>
      <details><summary>Limits</summary><div class="fields">
        <${Text} label="Elements per second" value=${quota.elements_per_second} inputmode="decimal" onInput=${(text) => setQuota({ ...quota, elements_per_second: text })} hint="of each node; empty: none" />
        <${Text} label="Bytes per second" value=${quota.bytes_per_second} inputmode="decimal" onInput=${(text) => setQuota({ ...quota, bytes_per_second: text })} />
        <${Text} label="Open streams" value=${quota.streams} inputmode="numeric" onInput=${(text) => setQuota({ ...quota, streams: text })} />
      </div></details>
    <//>
  <//>`;
}

// The only time that a key is seen. The first one is used at once: without it this page could ask nothing more.
function Secret({ made, mustUse, onClose }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(made.text);
      setCopied(true);
    } catch {
      document.getElementById("secret").select();
      say("Select it and copy it by hand: this browser does not let the page do it.", "bad");
    }
  };
  const use = () => { setKey(made.text); onClose(); };
  return html`<${Dialog} title="Your new key" onClose=${mustUse ? use : onClose}>
    <p>Copy it now. It is shown this once; the server keeps a digest of it and nothing else.</p>
    <div class="secret"><input id="secret" class="mono" readonly value=${made.text} aria-label="The key" onFocus=${(event) => event.target.select()} />
      <${Button} kind="main" onClick=${copy}>${copied ? "Copied" : "Copy"}<//></div>
    <div class="buttons">
      ${mustUse ? html`<${Button} onClick=${use}>Use it in this tab, and close<//>` : html`<${Button} onClick=${use}>Use it in this tab<//><${Button} onClick=${onClose}>Close<//>`}
    </div>
  <//>`;
}
