// Every request of the console: the key, errors, and a server that is gone and comes back.
import { cell } from "./cell.js";

const BASE = new URL(".", document.baseURI);
const KEY = "jjq-key";
const RETRY_MS = 1500;

export const key = cell(remembered());
export const keyWanted = cell(null); // the problem that asks for a key
export const reachable = cell(true);
export const epoch = cell(0); // grows when all that is shown must be loaded again

function remembered() {
  try {
    return sessionStorage.getItem(KEY) || "";
  } catch {
    return "";
  }
}

export function setKey(text) {
  try {
    text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY);
  } catch {
    // it stays in memory
  }
  key.set(text);
  keyWanted.set(null);
  epoch.set(epoch.value + 1);
}

// What went wrong, as RFC 9457 has it: `detail` says what happened, `advice` what to do.
export class Problem extends Error {
  constructor(fields) {
    super(fields.detail || fields.title || "the request failed");
    Object.assign(this, { status: 0, code: "", title: "", detail: this.message, advice: "", instance: "" }, fields);
  }

  get forbidden() {
    return this.status === 401 || this.status === 403;
  }

  // What happened, and what to do if that is not the same.
  get text() {
    return this.advice && !this.forbidden && !this.detail.includes(this.advice) ? `${this.detail} (${this.advice})` : this.detail;
  }

  get missing() {
    return this.status === 404;
  }
}

const GONE = { code: "GONE", title: "No answer", detail: "The server does not answer.", retriable: true };

// A path whose variable parts are encoded: at`v1/queues/${name}`.
export function at(texts, ...parts) {
  return texts.reduce((path, text, n) => path + encodeURIComponent(parts[n - 1]) + text);
}

export function address(path, query = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  return url;
}

// A response that is fine; anything else is a Problem.
export async function request(method, path, { query, body, headers = {}, accept = "application/json", signal } = {}) {
  const sent = { Accept: accept, ...headers };
  if (key.value) sent.Authorization = `Bearer ${key.value}`;
  if (body !== undefined && !(body instanceof Blob) && typeof body !== "string") {
    sent["Content-Type"] = "application/json";
    body = JSON.stringify(body);
  }
  let reply;
  try {
    reply = await fetch(address(path, query), {
      method, body, signal, headers: sent, credentials: "omit", cache: "no-store", redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    lost();
    throw new Problem(GONE);
  }
  if (!reachable.value) found();
  if (reply.ok) return reply;
  const problem = new Problem(await explained(reply));
  if (problem.status === 401) keyWanted.set(problem);
  throw problem;
}

async function explained(reply) {
  const plain = { status: reply.status, title: reply.statusText, detail: `The server answered ${reply.status}.` };
  try {
    return { ...plain, ...(await reply.json()) };
  } catch {
    return plain;
  }
}

const json = async (method, path, body, options) => {
  const reply = await request(method, path, { body, ...options });
  return reply.status === 204 ? null : reply.json();
};

export const get = (path, query, options) => json("GET", path, undefined, { query, ...options });
export const post = (path, body = {}, options) => json("POST", path, body, options);
export const put = (path, body = {}, options) => json("PUT", path, body, options);
export const patch = (path, body = {}, options) => json("PATCH", path, body, options);
export const del = (path, query, options) => json("DELETE", path, undefined, { query, ...options });

// Rows of a query: {columns, rows}.
export const sql = (query, params, options) => post("v1/sql", { query, params }, options);

// All entries of a list that comes in pages; `grown` is called after each page.
export async function all(path, field, { query = {}, signal, grown = () => {}, size = 1000 } = {}) {
  const found = [];
  let token = "";
  do {
    const page = await get(path, { ...query, page_size: size, page_token: token }, { signal });
    found.push(...page[field]);
    token = page.next_page_token;
    grown(found);
  } while (token);
  return found;
}

function found() {
  reachable.set(true);
  epoch.set(epoch.value + 1);
}

export function lost() {
  if (!reachable.value) return;
  reachable.set(false);
  const again = async () => {
    if (reachable.value) return;
    try {
      const reply = document.hidden ? null : await fetch(address("readyz"), { cache: "no-store", credentials: "omit" });
      if (reply && reply.ok) return found();
    } catch {
      // not yet
    }
    setTimeout(again, RETRY_MS);
  };
  setTimeout(again, RETRY_MS);
}
