// Elements of a queue: pages by offset or time, searches in slices of it. Never all of it, and long values only in part.
import { at, get, request, sql } from "../../core/api.js";
import { parse, write } from "../../parts/json.js";

export const PAGE = 50;
export const CUT = 1000; // characters of a value in a list
const NDJSON = "application/x-ndjson";

const path = (queue) => at`v1/queues/${queue}/elements`;

// The elements from a starting point on, oldest first.
export async function page(queue, start, { end, limit = PAGE, signal, cut = CUT } = {}) {
  const reply = await request("GET", path(queue), { query: { start, end, limit, cut }, accept: NDJSON, signal });
  return (await reply.text()).split("\n").filter(Boolean).map(parse);
}

// One element with all of its value.
export async function wholeElement(queue, offset, signal) {
  const [found] = await page(queue, `offset:${offset}`, { limit: 1, signal, cut: undefined });
  return found;
}

// The starting point that a person means: a number is an offset, a date is a time; others as everywhere in jjq.
export function startingPoint(text) {
  const given = text.trim().replaceAll(",", "");
  if (/^\d+$/.test(given)) return `offset:${given}`;
  if (/^\d{4}-\d\d-\d\d/.test(given)) {
    const date = new Date(given.replace(" ", "T"));
    return Number.isNaN(date.getTime()) ? `time:${given}` : `time:${date.toISOString()}`;
  }
  return given;
}

const CONDITIONS = {
  text: (bytes) => (bytes ? "contains(lower(hex(value)), lower(hex(encode($3))))" : "contains(value, $3)"),
  key: () => "key = encode($3)",
  sql: () => "",
};

// Elements of [first, next) that fit, newest first, at most `limit`.
export async function search(queue, content, { by, text, first, next, limit = PAGE, signal }) {
  const query = statement(queue, content, by, text, limit);
  const params = by === "sql" ? [first, next] : [first, next, text];
  const { rows } = await sql(query, params, { signal });
  return rows.map(([offset, timestamp, key, head, size]) => {
    const element = { offset, timestamp, key: key ?? undefined, partial: true };
    if (size > CUT) return { ...element, value_cut: head, value_bytes: size };
    return { ...element, value: content === "json" ? parse(head) : head };
  });
}

function statement(queue, content, by, text, limit) {
  const bytes = content === "bytes";
  const head = bytes ? `value[1:${CUT}]` : `left(value, ${CUT})`;
  const size = bytes ? "octet_length(value)" : "strlen(value)";
  const condition = by === "sql" ? text : CONDITIONS[by](bytes);
  return `SELECT "offset", timestamp, key, ${head}, ${size} FROM "${queue.replaceAll('"', '""')}"
    WHERE "offset" >= $1 AND "offset" < $2 AND (${condition}\n) ORDER BY "offset" DESC LIMIT ${limit}`;
}

export const extent = (queue, signal) => get(at`v1/queues/${queue}`, {}, { signal });

// What a person reads of a value, and its size in bytes.
export function textOf(element) {
  if (element.value_cut !== undefined) return element.value_cut;
  if (element.value_base64 !== undefined) return element.value_base64;
  return typeof element.value === "string" ? element.value : write(element.value);
}

export function sizeOf(element) {
  if (element.value_bytes !== undefined) return element.value_bytes;
  if (element.value_base64 !== undefined) return Math.floor((element.value_base64.length * 3) / 4);
  return new Blob([textOf(element)]).size;
}

export const keyOf = (element) => element.key ?? (element.key_base64 !== undefined ? element.key_base64 : null);
