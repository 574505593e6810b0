// Verify: the server reads all of the history, and says what it found.
import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { Problem, at, request } from "../../core/api.js";
import { bytes, count, whole } from "../../core/format.js";
import { events } from "../../core/live.js";
import { Badge, Button, Failure } from "../../parts/base.js";
import { Dialog } from "../../parts/dialog.js";

export function Verify({ queue, onClose }) {
  const [progress, tell] = useState({ blocks: 0, blocks_total: 0, read_bytes: 0 });
  const [report, found] = useState(null);
  const [error, fail] = useState(null);
  const stop = useRef(new AbortController());
  useEffect(() => {
    const run = async () => {
      const reply = await request("POST", at`v1/queues/${queue}/verify`, { accept: "text/event-stream", signal: stop.current.signal });
      for await (const event of events(reply.body)) {
        if (event.event === "progress") tell(JSON.parse(event.data));
        else if (event.event === "report") return found(JSON.parse(event.data));
        else return fail(new Problem(JSON.parse(event.data)));
      }
      return fail(new Error("The server broke off."));
    };
    run().catch((problem) => problem.name === "AbortError" || fail(problem));
    return () => stop.current.abort();
  }, []);
  return html`<${Dialog} title=${`Verify ${queue}`} onClose=${onClose} wide=${report && report.defects.length > 0}>
    ${error && html`<${Failure} error=${error} />`}
    ${!error && !report && html`<p role="status">${whole(progress.blocks)} of ${count(progress.blocks_total, "block")} read, ${bytes(progress.read_bytes)}</p>
      <progress max=${progress.blocks_total || 1} value=${progress.blocks} aria-label="Progress"></progress>`}
    ${report && html`<${Verdict} report=${report} />`}
    <div class="buttons"><${Button} onClick=${onClose}>${report || error ? "Close" : "Stop"}<//></div>
  <//>`;
}

function Verdict({ report }) {
  const [tone, text] = { ok: ["good", "sound"], "cut off": ["warn", `sound up to offset ${whole(report.cut_off_at)}`], damaged: ["bad", "damaged"] }[report.verdict];
  return html`<dl class="facts" role="status">
      <dt>History is</dt><dd><${Badge} tone=${tone}>${text}<//></dd>
      <dt>Read</dt><dd>${count(report.blocks, "block")}, ${count(report.elements, "element")}, ${bytes(report.stored_bytes)}</dd>
      <dt>Chain digest</dt><dd class="mono">${report.chain || "none yet"}</dd>
    </dl>
    ${report.defects.map((each) => html`<div class="refused"><b>${each.kind}</b> ${each.key}: ${each.text}</div>`)}
    ${report.notes.map((each) => html`<p class="dim">${each}</p>`)}`;
}
