// Rates of queues, from two samples of their extents.
import { useRef, useState } from "../vendor/preact.js";
import { useLive } from "./live.js";

// name → {next_offset, …, rate}: what the newest sample says of `queues` and `details`.
export function useQueueFigures(queues, details = []) {
  const [figures, set] = useState({});
  const before = useRef({});
  useLive(queues, (sample) => {
    const found = {};
    for (const queue of sample.queues) {
      const last = before.current[queue.name];
      const seconds = last ? sample.at - last.at : 0;
      const rate = seconds > 0.3 ? Math.max(0, queue.next_offset - last.next_offset) / seconds : last ? last.rate : null;
      found[queue.name] = { ...queue, at: sample.at, rate };
    }
    before.current = found;
    set(found);
  }, details);
  return figures;
}
