// Dialogs: the browser's own, so Escape closes them and the focus stays inside.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { useLoad } from "../core/load.js";
import { Button, Failure, Loading } from "./base.js";
import { Form, Text } from "./form.js";
import { Icon } from "./icon.js";

export function Dialog({ title, onClose, wide, children }) {
  const place = useRef(null);
  const leaving = useRef(false); // its end is known to whoever removed it
  useEffect(() => {
    const box = place.current;
    box.showModal();
    return () => {
      leaving.current = true;
      box.close();
    };
  }, []);
  const outside = (event) => event.target === place.current && onClose();
  return html`<dialog ref=${place} class=${wide ? "wide" : ""} aria-label=${title} onClose=${() => leaving.current || onClose()}
    onCancel=${(event) => { event.preventDefault(); onClose(); }} onMouseDown=${outside}>
    <div class="dialog">
      <header><h2>${title}</h2><${Button} kind="quiet icon" aria-label="Close" onClick=${onClose}><${Icon} name="close" /><//></header>
      ${children}
    </div>
  </dialog>`;
}

// Something that cannot be undone, or costs much. `plan` asks the server what would happen (a dry run); `show` makes text
// of its answer. Only then can it be confirmed; with `retype`, after the name was written once more.
export function Confirm({ title, plan, show, children, verb, retype, danger = true, act, onClose }) {
  const [typed, type] = useState("");
  const planned = useLoad((signal) => (plan ? plan(signal) : true), []);
  let about = null;
  if (planned.error) about = html`<${Failure} error=${planned.error} retry=${planned.reload} />`;
  else if (planned.data === undefined) about = html`<${Loading} what="Asking what would happen" />`;
  else about = html`<div class="plan">${show ? show(planned.data) : children}</div>`;
  const submit = async () => {
    await act(planned.data);
    onClose();
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    ${about}
    ${planned.data !== undefined && html`<${Form} submit=${submit} verb=${verb} danger=${danger}
      ready=${!retype || typed === retype} onCancel=${onClose}>
      ${retype && html`<${Text} label=${`Write ${retype} to confirm`} value=${typed} onInput=${type} autofocus />`}
    <//>`}
  <//>`;
}
