// Forms: labelled fields, and a form that shows what the server did not like.
import { html, useRef, useState } from "../vendor/preact.js";
import { Button } from "./base.js";

let last = 0;
export function useId() {
  const id = useRef("");
  if (!id.current) id.current = `f${++last}`;
  return id.current;
}

// `children` is one control, made with the id that its label names; or several, which label themselves.
export function Field({ label, hint, children }) {
  const id = useId();
  const single = typeof children === "function";
  return html`<div class="field">
    ${single ? html`<label for=${id}>${label}</label>` : html`<span class="label" aria-hidden="true">${label}</span>`}
    ${single ? children(id) : children}
    ${hint && html`<p class="hint">${hint}</p>`}
  </div>`;
}

export const Text = ({ label, hint, value, onInput, ...rest }) => html`
  <${Field} label=${label} hint=${hint}>
    ${(id) => html`<input id=${id} value=${value} autocomplete="off" spellcheck=${false}
      onInput=${(event) => onInput(event.target.value)} ...${rest} />`}
  <//>`;

export const Area = ({ label, hint, value, onInput, ...rest }) => html`
  <${Field} label=${label} hint=${hint}>
    ${(id) => html`<textarea id=${id} value=${value} spellcheck=${false} rows="6"
      onInput=${(event) => onInput(event.target.value)} ...${rest}></textarea>`}
  <//>`;

// options: [value, text] pairs
export const Select = ({ label, hint, value, options, onInput, ...rest }) => html`
  <${Field} label=${label} hint=${hint}>
    ${(id) => html`<select id=${id} value=${value} onChange=${(event) => onInput(event.target.value)} ...${rest}>
      ${options.map(([each, text]) => html`<option value=${each} selected=${each === value}>${text}</option>`)}
    </select>`}
  <//>`;

export const Check = ({ label, checked, onInput }) => html`
  <label class="check"><input type="checkbox" checked=${checked} onChange=${(event) => onInput(event.target.checked)} /> ${label}</label>`;

// One of a few, side by side. options: [value, text] pairs
export const Choice = ({ label, value, options, onInput }) => html`
  <div class="choice" role="group" aria-label=${label}>
    ${options.map(([each, text]) => html`<button type="button" aria-pressed=${each === value}
      onClick=${() => onInput(each)}>${text}</button>`)}
  </div>`;

export const Refused = ({ error }) =>
  error && html`<p class="refused" role="alert">${error.text || error.message}</p>`;

// `submit` does the work; what it throws is shown. While it runs, nothing can be sent twice.
export function Form({ submit, verb, danger, ready = true, onCancel, children }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const send = async (event) => {
    event.preventDefault();
    if (busy || !ready) return;
    setBusy(true);
    setError(null);
    try {
      await submit();
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  return html`<form onSubmit=${send}>
    ${children}
    <${Refused} error=${error} />
    <div class="buttons">
      ${onCancel && html`<${Button} onClick=${onCancel}>Cancel<//>`}
      <button type="submit" class=${`button ${danger ? "danger" : "main"}`} disabled=${busy || !ready}>${busy ? "Working…" : verb}</button>
    </div>
  </form>`;
}
