// Loading as a hook: what was loaded stays visible while it is loaded again.
import { useCallback, useEffect, useRef, useState } from "../vendor/preact.js";
import { epoch } from "./api.js";
import { useCell } from "./cell.js";

// {data, error, loading, reload}; `load` gets a signal that ends with the component, or with the next load.
export function useLoad(load, inputs) {
  const [state, set] = useState({ of: inputs, data: undefined, error: null, loading: true });
  const [turn, next] = useState(0);
  const age = useCell(epoch);
  useEffect(() => {
    const stop = new AbortController();
    const started = (before) => ({ of: inputs, data: same(before.of, inputs) ? before.data : undefined, error: null, loading: true });
    set(started);
    Promise.resolve()
      .then(() => load(stop.signal))
      .then((data) => !stop.signal.aborted && set({ of: inputs, data, error: null, loading: false }))
      .catch((error) => {
        if (!stop.signal.aborted) set((before) => ({ ...started(before), error, loading: false }));
      });
    return () => stop.abort();
  }, [...inputs, turn, age]);
  const reload = useCallback(() => next((n) => n + 1), []);
  // Between a change of the inputs and the load of the new ones, nothing of the old ones is shown.
  return same(state.of, inputs) ? { ...state, reload } : { data: undefined, error: null, loading: true, reload };
}

const same = (a, b) => a.length === b.length && a.every((input, n) => Object.is(input, b[n]));

// As useLoad, of a list that comes in pages: what has come so far is shown. `load` gets a function that takes it, too.
export function usePages(load, inputs) {
  const [some, grow] = useState({ of: inputs, rows: [] });
  const found = useLoad((signal) => load(signal, (rows) => signal.aborted || grow({ of: inputs, rows: [...rows] })), inputs);
  const data = found.data || (some.rows.length && same(some.of, inputs) ? some.rows : undefined);
  return { ...found, data, growing: found.loading && !found.data };
}

// `work` again and again, `seconds` after it ended; not while the tab is hidden.
export function useEvery(seconds, work, inputs) {
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => {
    let timer = 0;
    const tick = async () => {
      if (!document.hidden) await latest.current();
      timer = setTimeout(tick, seconds * 1000);
    };
    timer = setTimeout(tick, seconds * 1000);
    return () => clearTimeout(timer);
  }, inputs);
}
