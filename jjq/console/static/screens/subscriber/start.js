// A starting point as people choose it, and what the server makes of it before anything is done.
import { html, useEffect, useState } from "../../vendor/preact.js";
import { count, time, whole } from "../../core/format.js";
import { useLoad } from "../../core/load.js";
import { Refused, Select, Text } from "../../parts/form.js";

const KINDS = [["beginning", "the beginning"], ["end", "the end"], ["offset", "an offset"], ["time", "a time"], ["ago", "so long ago"], ["last", "before the last … elements"]];
const HINTS = { offset: "a number", time: "in the time zone of this browser", ago: "30s, 15m, 2h, 7d", last: "a number" };
const PAUSE_MS = 250;

// Calls `onStart` with a starting point, or "" as long as there is none.
export function StartInput({ label, value = "beginning", onStart }) {
  const [kind, setKind] = useState(value);
  const [text, setText] = useState("");
  useEffect(() => {
    if (kind === "beginning" || kind === "end") return onStart(kind);
    if (!text.trim()) return onStart("");
    if (kind !== "time") return onStart(`${kind}:${text.trim()}`);
    const date = new Date(text);
    return onStart(Number.isNaN(date.getTime()) ? "" : `time:${date.toISOString()}`);
  }, [kind, text]);
  return html`<div class="fields">
    <${Select} label=${label} value=${kind} options=${KINDS} onInput=${(next) => { setKind(next); setText(""); }} />
    ${HINTS[kind] && html`<${Text} key=${kind} label=${KINDS.find(([name]) => name === kind)[1]} hint=${HINTS[kind]} value=${text} onInput=${setText}
      type=${kind === "time" ? "datetime-local" : "text"} step=${kind === "time" ? "1" : undefined} />`}
  </div>`;
}

// The dry run of `start`: {data, error, loading}; data is the subscriber as it would be.
export function usePlan(start, ask) {
  const [settled, settle] = useState(start);
  useEffect(() => {
    const timer = setTimeout(() => settle(start), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [start]);
  const load = useLoad((signal) => (settled ? ask(settled, signal) : null), [settled]);
  return settled === start ? load : { data: null, error: null, loading: true };
}

export function Plan({ plan, was }) {
  if (plan.error) return html`<${Refused} error=${plan.error} />`;
  if (!plan.data) return html`<div class="plan dim" role="status">${plan.loading ? "Asking where that is…" : "Nothing is chosen yet."}</div>`;
  const { offset, lag, resolved } = plan.data;
  const step = was === undefined ? 0 : offset - was;
  return html`<div class="plan" role="status">
    <p>It would stand at offset <b>${whole(offset)}</b>${resolved && resolved.timestamp ? `, pushed ${time(resolved.timestamp)}` : ", where the next element will be"}.</p>
    ${was !== undefined && html`<p>${step === 0 ? "That is where it is now." : step < 0
      ? `It reads ${count(-step, "element")} again.`
      : `It passes over ${count(step, "element")} that it has not seen.`}</p>`}
    <p class="dim">${count(resolved ? resolved.next_offset - offset : lag, "element")} would lie ahead of it${resolved ? ` (rule: ${resolved.rule})` : ""}.</p>
  </div>`;
}
