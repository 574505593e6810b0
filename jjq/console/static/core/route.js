// Where we are, in the part of the address behind #. Nothing of it is sent to the server.
import { cell } from "./cell.js";

export const route = cell(parse());

function parse() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decode);
  return { path: `/${parts.map(encodeURIComponent).join("/")}`, parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

addEventListener("hashchange", () => route.set(parse()));

// The address of a screen: to("queues", name), to("queues", name, {start: "beginning"}).
export function to(...parts) {
  const query = typeof parts[parts.length - 1] === "object" ? parts.pop() : {};
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(...parts) {
  location.hash = to(...parts);
}

// Change the query of this screen, without a new entry in the history.
export function refine(changes) {
  const here = route.value;
  history.replaceState(null, "", to(...here.parts, { ...here.query, ...changes }));
  route.set(parse());
}

// The screen of `screens` that fits, and its parameters.
export function match(screens, parts) {
  for (const screen of screens) {
    const wanted = screen.path.split("/").filter(Boolean);
    if (wanted.length !== parts.length) continue;
    if (!wanted.every((word, n) => word.startsWith(":") || word === parts[n])) continue;
    const params = {};
    wanted.forEach((word, n) => word.startsWith(":") && (params[word.slice(1)] = parts[n]));
    return { screen, params };
  }
  return null;
}
