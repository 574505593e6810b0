// The states of tasks: names, colours, and how many tasks are in each.
import { html } from "../vendor/preact.js";
import { count, whole } from "../core/format.js";

export const STATES = ["ready", "taken", "delayed", "buried", "done"];
export const ABOUT = {
  ready: "wait for a worker",
  taken: "a worker has them",
  delayed: "ready later",
  buried: "set aside, until they are kicked",
  done: "finished, or deleted",
};

export const State = ({ name }) => (name ? html`<span class=${`task-state ${name}`}>${name}</span>` : html`<span class="task-state">none</span>`);

export const total = (counts) => STATES.reduce((sum, name) => sum + (counts[name] || 0), 0);

// 3 ready, 1 buried
export const inWords = (counts, names = STATES) =>
  names.filter((name) => counts[name]).map((name) => `${whole(counts[name])} ${name}`).join(", ") || "no tasks";

// The shares as a bar; a share that is there is seen, however small it is.
export const StateBar = ({ counts }) => html`
  <div class="state-bar" role="img" aria-label=${inWords(counts)} title=${inWords(counts)}>
    ${STATES.filter((name) => counts[name]).map((name) => html`<span class=${name} style=${{ flexGrow: counts[name] }}></span>`)}
  </div>`;

// One tile for each state; with `choose`, each is a button.
export const StateTiles = ({ counts, before, chosen, choose }) => html`
  <div class="state-tiles">
    ${STATES.map((name) => {
      const inside = html`
        <span class="label">${name}</span>
        <span class="figure">${whole(counts[name] || 0)}</span>
        <span class="note">${before ? change((counts[name] || 0) - (before[name] || 0)) : ABOUT[name]}</span>`;
      return choose
        ? html`<button type="button" class=${`state-tile ${name}`} aria-pressed=${chosen === name} onClick=${() => choose(name)}>${inside}</button>`
        : html`<div class=${`state-tile ${name}`}>${inside}</div>`;
    })}
  </div>`;

const change = (by) => (by === 0 ? "no change" : `${by > 0 ? "+" : "−"}${count(Math.abs(by), "task")}`);
