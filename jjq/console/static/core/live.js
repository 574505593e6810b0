// Live figures: one stream of GET /v1/live for the whole page, closed while the tab is hidden.
import { useEffect, useRef } from "../vendor/preact.js";
import { Problem, epoch, lost, request } from "./api.js";
import { cell } from "./cell.js";

const AGAIN_MS = 1000;
const SETTLE_MS = 150; // several components name their queues in the same moment
const KEPT = 300; // samples that a plot can show

export const sample = cell(null); // the newest: {time, nodes, rates, latency, queues}
export const trouble = cell(null); // why there is none
export const history = []; // of all but queues: a screen that opens has a plot at once

const MOST = 60; // queues that a page can watch; the server takes a few more
const watchers = new Map(); // component → {queues, details}
let stream = null;
let wanted = "";
let timer = 0;

function names() {
  const joined = (field) => [...new Set([...watchers.values()].flatMap((each) => each[field]))].slice(0, MOST).sort().join(",");
  return JSON.stringify({ queues: joined("queues"), details: joined("details") });
}

function settle() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const needed = watchers.size > 0 && !document.hidden;
    if (stream && (!needed || names() !== wanted)) {
      stream.abort();
      stream = null;
    }
    if (needed && !stream) open();
  }, SETTLE_MS);
}

async function open() {
  const mine = (stream = new AbortController());
  wanted = names();
  try {
    const reply = await request("GET", "v1/live", {
      query: JSON.parse(wanted), accept: "text/event-stream", signal: mine.signal,
    });
    for await (const event of events(reply.body)) {
      if (event.event === "error") throw new Problem(JSON.parse(event.data));
      take(JSON.parse(event.data));
    }
    if (!mine.signal.aborted) throw new TypeError("the stream ended");
  } catch (error) {
    if (mine.signal.aborted || stream !== mine) return;
    stream = null;
    trouble.set(error);
    if (error instanceof TypeError) lost(); // cut while it was read
    if (error.forbidden) return; // a new key opens it again
    setTimeout(settle, AGAIN_MS);
  }
}

function take(found) {
  found.at = Date.parse(found.time) / 1000;
  const last = history[history.length - 1];
  if (last && found.at - last.at > 10) history.push({ at: last.at + 1 }); // a gap in the plots
  if (found.rates) history.push({ ...found, queues: undefined }); // the first sample of a server has none
  if (history.length > KEPT) history.splice(0, history.length - KEPT);
  trouble.set(null);
  sample.set(found);
}

// Server-sent events of a body: {id, event, data}.
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let event = { data: "" };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (text + value).split("\n");
      text = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (event.data) yield event;
          event = { data: "" };
        } else if (!line.startsWith(":")) {
          const colon = line.indexOf(":");
          const [name, content] = [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
          event[name] = name === "data" && event.data ? `${event.data}\n${content}` : content;
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

document.addEventListener("visibilitychange", settle);
epoch.watch(() => {
  if (stream) stream.abort();
  stream = null;
  settle();
});

// Call `heard` with every sample, which tells of these queues, too; of `details` also the subscribers and groups.
export function useLive(queues, heard, details = []) {
  const me = useRef({});
  const latest = useRef(heard);
  latest.current = heard;
  useEffect(() => {
    watchers.set(me.current, { queues, details });
    settle();
  }, [queues.join(","), details.join(",")]);
  useEffect(() => {
    const end = sample.watch((found) => latest.current(found));
    return () => {
      end();
      watchers.delete(me.current);
      settle();
    };
  }, []);
}
