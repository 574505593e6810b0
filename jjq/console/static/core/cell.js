// A value that components watch.
import { useEffect, useState } from "../vendor/preact.js";

export function cell(value) {
  const watchers = new Set();
  return {
    get value() {
      return value;
    },
    set(next) {
      if (next === value) return;
      value = next;
      for (const watcher of [...watchers]) watcher(value);
    },
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

export function useCell(watched) {
  const [value, set] = useState(watched.value);
  useEffect(() => {
    set(watched.value);
    return watched.watch(set);
  }, [watched]);
  return value;
}
