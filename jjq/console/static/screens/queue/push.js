// Push: one element, or the lines of a file.
import { html, useRef, useState } from "../../vendor/preact.js";
import { Problem, at, request } from "../../core/api.js";
import { bytes, count, percent, whole } from "../../core/format.js";
import { Dialog } from "../../parts/dialog.js";
import { Area, Choice, Field, Form, Text } from "../../parts/form.js";
import { parse } from "../../parts/json.js";
import { say } from "../../parts/toast.js";

const PART = 500_000; // bytes of a file that go in one push
const RAW_MOST = 8 * 2 ** 20;

export function Push({ queue, content, onClose, onDone }) {
  const [what, setWhat] = useState("one");
  return html`<${Dialog} title=${`Push to ${queue}`} onClose=${onClose} wide>
    <${Field} label="What"><${Choice} label="What to push" value=${what} onInput=${setWhat} options=${[["one", "One element"], ["lines", "A file, line by line"], ["file", "A file as one element"]]} /><//>
    ${what === "one"
      ? html`<${One} queue=${queue} content=${content} onClose=${onClose} onDone=${onDone} />`
      : html`<${File} key=${what} queue=${queue} content=${content} lines=${what === "lines"} onClose=${onClose} onDone=${onDone} />`}
  <//>`;
}

const path = (queue) => at`v1/queues/${queue}/elements`;
const refuse = (detail) => { throw new Problem({ detail }); };

function One({ queue, content, onClose, onDone }) {
  const [value, setValue] = useState(content === "json" ? "{}" : "");
  const [key, setKey] = useState("");
  const [headers, setHeaders] = useState("");
  const wrong = content === "json" && parse(value) === undefined;
  const submit = async () => {
    // The text of a JSON value goes as it is written: a number keeps its digits.
    const fields = [`"value":${content === "json" ? value : JSON.stringify(value)}`];
    if (key) fields.push(`"key":${JSON.stringify(key)}`);
    if (headers.trim()) fields.push(`"headers":${JSON.stringify(named(headers))}`);
    const reply = await request("POST", path(queue), { body: `{"elements":[{${fields.join(",")}}]}`, headers: { "Content-Type": "application/json" } });
    const receipt = await reply.json();
    say(`Pushed: offset ${whole(receipt.first_offset)}, ${receipt.stage}`);
    onDone(receipt);
    onClose();
  };
  return html`<${Form} submit=${submit} verb="Push" ready=${!wrong} onCancel=${onClose}>
    <${Area} label=${content === "json" ? "Value, JSON" : "Value, text"} value=${value} onInput=${setValue} autofocus hint=${wrong ? "This is not JSON yet." : ""} />
    <div class="fields">
      <${Text} label="Key" value=${key} onInput=${setKey} placeholder="none" />
      <${Area} label="Headers" rows="2" value=${headers} onInput=${setHeaders} placeholder="name: text" hint="one on each line" />
    </div>
  <//>`;
}

function named(text) {
  const found = {};
  for (const line of text.split("\n").filter((each) => each.trim())) {
    const colon = line.indexOf(":");
    if (colon < 1) refuse(`The header "${line}" has no name: write name: text.`);
    found[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return found;
}

function File({ queue, content, lines, onClose, onDone }) {
  const [file, setFile] = useState(null);
  const [sent, setSent] = useState(null);
  const stop = useRef(new AbortController());
  const leave = () => {
    stop.current.abort();
    onClose();
  };
  const submit = async () => {
    if (!lines && file.size > RAW_MOST) refuse(`The file has ${bytes(file.size)}; an element has at most ${bytes(RAW_MOST)}.`);
    const pushed = lines ? await pushLines(queue, content, file, stop.current.signal, setSent) : await pushWhole(queue, file, stop.current.signal);
    say(`Pushed ${count(pushed, "element")} from ${file.name}`);
    onDone();
    onClose();
  };
  const hint = lines ? (content === "json" ? "Each line is a JSON value." : "Each line is a text; empty lines are passed over.") : "All of the file is one value.";
  return html`<${Form} submit=${submit} verb="Push the file" ready=${file !== null} onCancel=${leave}>
    <${Field} label="File" hint=${hint}>${(id) => html`<input id=${id} type="file" onChange=${(event) => setFile(event.target.files[0] || null)} />`}<//>
    ${sent && html`<p role="status">${count(sent.elements, "element")} pushed, ${percent(sent.bytes / file.size)} of ${bytes(file.size)}</p>
      <progress max=${file.size} value=${sent.bytes} aria-label="Progress"></progress>`}
  <//>`;
}

async function pushWhole(queue, file, signal) {
  await request("POST", path(queue), { body: file, headers: { "Content-Type": "application/octet-stream" }, signal });
  return 1;
}

// Part after part, each of them whole lines. What was pushed stays pushed if a later part is refused; the error says where.
async function pushLines(queue, content, file, signal, tell) {
  let [at, elements] = [0, 0];
  while (at < file.size) {
    const part = await wholeLines(file, at);
    const few = part.text.split("\n").map((line) => line.replace(/\r$/, "")).filter(Boolean);
    if (few.length) {
      try {
        await request("POST", path(queue), { ...form(content, few), signal });
      } catch (problem) {
        if (problem.name === "AbortError") throw problem;
        throw new Problem({ ...problem, detail: `${count(elements, "element")} of the file were pushed; then: ${problem.detail}` });
      }
    }
    at += part.size;
    elements += few.length;
    tell({ bytes: at, elements });
  }
  return elements;
}

const form = (content, lines) =>
  content === "json"
    ? { body: `${lines.join("\n")}\n`, headers: { "Content-Type": "application/x-ndjson" } }
    : { body: { elements: lines.map((value) => ({ value })) } };

async function wholeLines(file, at) {
  for (let size = PART; ; size *= 2) {
    const bytesHere = new Uint8Array(await file.slice(at, at + size).arrayBuffer());
    const ended = at + size >= file.size;
    const end = ended ? bytesHere.length : bytesHere.lastIndexOf(10) + 1;
    if (end > 0 || ended) return { text: new TextDecoder().decode(bytesHere.subarray(0, end)), size: end };
    if (size > RAW_MOST) refuse(`A line has more than ${bytes(RAW_MOST)}.`);
  }
}
