// What happens in a group, as it happens: its ledger as one stream, closed while the tab is hidden.
import { useEffect, useRef } from "../vendor/preact.js";
import { at, epoch, request } from "./api.js";
import { useCell } from "./cell.js";
import { events } from "./live.js";

const AGAIN_MS = 2000;
const GATHER_MS = 1000; // a busy group changes often; what is shown changes less often

// Call `changed` when tasks of the group have changed.
export function useLedger(queue, group, changed) {
  const latest = useRef(changed);
  latest.current = changed;
  const age = useCell(epoch);
  useEffect(() => {
    let stream = null;
    let again = 0;
    let gather = 0;
    const tell = () => {
      if (!gather) gather = setTimeout(() => { gather = 0; latest.current(); }, GATHER_MS);
    };
    const open = async () => {
      const mine = (stream = new AbortController());
      try {
        const reply = await request("GET", at`v1/queues/${`${queue}~${group}`}/elements`, {
          query: { start: "end" }, accept: "text/event-stream", signal: mine.signal,
        });
        for await (const event of events(reply.body)) if (event.event !== "error") tell();
        if (!mine.signal.aborted) throw new TypeError("the stream ended");
      } catch (error) {
        if (mine.signal.aborted) return;
        stream = null;
        if (!error.forbidden && !error.missing) again = setTimeout(settle, AGAIN_MS);
      }
    };
    const settle = () => {
      clearTimeout(again);
      if (document.hidden && stream) {
        stream.abort();
        stream = null;
      } else if (!document.hidden && !stream) {
        open();
        tell();
      }
    };
    open();
    document.addEventListener("visibilitychange", settle);
    return () => {
      document.removeEventListener("visibilitychange", settle);
      clearTimeout(again);
      clearTimeout(gather);
      if (stream) stream.abort();
    };
  }, [queue, group, age]);
}
