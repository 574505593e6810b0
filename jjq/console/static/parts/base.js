// Small things that every screen uses: page heads, buttons, states, times.
import { html } from "../vendor/preact.js";
import { ago, time } from "../core/format.js";

// The head of a screen. `crumbs` are [text, address] pairs that lead here; `actions` stand on the right.
export const Page = ({ title, crumbs = [], about, actions, children }) => html`
  <header class="head">
    <div class="grow">
      ${crumbs.length > 0 && html`<nav class="crumbs" aria-label="Where you are">
        ${crumbs.map(([text, href]) => html`<a href=${href}>${text}</a><span aria-hidden="true">/</span>`)}
      </nav>`}
      <h1 tabindex="-1">${title}</h1>
      ${about && html`<p class="about">${about}</p>`}
    </div>
    <div class="actions">${actions}</div>
  </header>
  ${children}`;

export const Panel = ({ title, note, actions, children, flush }) => html`
  <section class=${flush ? "panel flush" : "panel"} aria-label=${title}>
    ${(title || actions) && html`<header class="panel-head">
      <h2>${title}</h2>
      ${note && html`<span class="note">${note}</span>`}
      <div class="actions">${actions}</div>
    </header>`}
    ${children}
  </section>`;

// kind: "" | "main" | "danger" | "quiet"
export const Button = ({ kind = "", children, ...rest }) => html`<button type="button" class=${`button ${kind}`} ...${rest}>${children}</button>`;

// One figure: label, number with unit, and a word about it.
export const Tile = ({ label, value, note, tone = "" }) => html`
  <div class=${`tile ${tone}`}>
    <dt>${label}</dt>
    <dd>${value}</dd>
    ${note && html`<dd class="note">${note}</dd>`}
  </div>`;

export const Tiles = ({ children }) => html`<dl class="tiles">${children}</dl>`;

// tone: "" | "good" | "warn" | "bad" | "accent"
export const Badge = ({ tone = "", title, children }) => html`<span class=${`badge ${tone}`} title=${title}>${children}</span>`;

export const Time = ({ at, millis }) =>
  at ? html`<time datetime=${at} title=${`${at} (UTC)`}>${time(at, { millis })}</time>` : html`<span class="dim">–</span>`;

export const Ago = ({ at }) =>
  at ? html`<time datetime=${at} title=${`${time(at)} here, ${at} in UTC`}>${ago(at)}</time>` : html`<span class="dim">–</span>`;

// The search box of a screen; the key / leads to it.
export const Search = ({ value, onInput, label = "Search", ...rest }) => html`
  <input class="search" type="search" data-search value=${value} aria-label=${label} placeholder=${`${label}  ( / )`}
    autocomplete="off" spellcheck=${false} onInput=${(event) => onInput(event.target.value)} ...${rest} />`;

// States ------------------------------------------------------------------------------------------------

export const Loading = ({ what = "Loading" }) => html`
  <div class="state" role="status"><span class="pulse" aria-hidden="true"></span><p>${what}…</p></div>`;

// Nothing is here yet: say so, and what to do about it.
export const Empty = ({ title, children, action }) => html`
  <div class="state"><h3>${title}</h3>${children && html`<p>${children}</p>`}${action}</div>`;

export function Failure({ error, retry }) {
  if (error.forbidden)
    return html`<div class="state" role="alert">
      <h3>No permission</h3>
      <p>${error.detail}</p>
      <p class="dim">Your key does not have this right. Use another one: the key icon below the menu asks for it.</p>
    </div>`;
  return html`<div class="state bad" role="alert">
    <h3>${error.missing ? "Not found" : error.code === "GONE" ? "No answer" : "That did not work"}</h3>
    <p>${error.text || error.message}</p>
    ${error.instance && html`<p class="dim small">Request ${error.instance}</p>`}
    ${retry && html`<${Button} onClick=${retry}>Try again<//>`}
  </div>`;
}

// The state of a load, or what `children` makes of its data.
export function Loaded({ load, what, children }) {
  if (load.data !== undefined) return children(load.data);
  if (load.error) return html`<${Failure} error=${load.error} retry=${load.reload} />`;
  return html`<${Loading} what=${what} />`;
}
