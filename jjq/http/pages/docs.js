// The page of /docs: reads openapi.json and shows it. Text goes in as text, never as markup.
"use strict";

const base = new URL(".", location.href).href.replace(/\/$/, ""); // also below another application
const place = document.getElementById("operations");
const make = (tag, text, ...children) => {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  node.append(...children);
  return node;
};

function named(schema, all) {
  return schema && schema.$ref ? all[schema.$ref.split("/").pop()] : schema;
}

function kindOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map(kindOf).join(" | ");
  if (schema.type === "array") return `list of ${kindOf(schema.items) || "any"}`;
  return schema.type || "any";
}

function fields(schema, all) {
  const found = named(schema, all);
  if (!found || !found.properties) return make("p", kindOf(schema));
  const table = make("table");
  for (const [name, field] of Object.entries(found.properties)) {
    const must = (found.required || []).includes(name) ? "required" : "";
    table.append(make("tr", "", make("td", "", make("code", name)), make("td", kindOf(field)), make("td", must)));
  }
  return table;
}

function example(method, path, operation) {
  const body = operation.requestBody && operation.requestBody.content["application/json"];
  const send = body ? " --json '{…}'" : "";
  return `curl -X ${method.toUpperCase()} ${base}${path}${send}`;
}

function show(method, path, operation, all) {
  const box = make("details");
  const head = make("summary", "", make("b", method.toUpperCase()), make("code", path));
  const about = make("span", operation.summary);
  about.className = "about";
  head.append(about);
  box.append(head, make("pre", example(method, path, operation)));
  if (operation["x-jjq-scope"]) box.append(make("p", `A key needs the scope: ${operation["x-jjq-scope"]}`));
  if (operation.parameters.length) {
    const table = make("table");
    for (const each of operation.parameters)
      table.append(make("tr", "", make("td", "", make("code", each.name)), make("td", each.in),
        make("td", kindOf(each.schema)), make("td", each.description || "")));
    box.append(make("h4", "Parameters"), table);
  }
  const bodies = (operation.requestBody || {}).content || {};
  for (const [kind, media] of Object.entries(bodies))
    box.append(make("h4", `Send ${kind}`), fields(media.schema, all));
  for (const [status, reply] of Object.entries(operation.responses)) {
    if (!status.startsWith("2")) continue;
    for (const [kind, media] of Object.entries(reply.content || {}))
      box.append(make("h4", `${status} answers ${kind}`), fields(media.schema, all));
  }
  return box;
}

function draw(api, wanted) {
  place.replaceChildren();
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths))
    for (const [method, operation] of Object.entries(methods)) {
      const text = `${method} ${path} ${operation.summary} ${operation.operationId}`.toLowerCase();
      if (!text.includes(wanted)) continue;
      const tag = operation.tags[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(show(method, path, operation, api.components.schemas));
    }
  if (!groups.size) place.append(make("p", "Nothing has that in its name."));
  for (const [tag, boxes] of groups) place.append(make("h2", tag), ...boxes);
}

function key() {
  try {
    return sessionStorage.getItem("jjq-key"); // the console keeps it there, as long as this tab is open
  } catch {
    return null;
  }
}

function refused(status, words) {
  if (status !== 401) return new Error(`${status} ${words}`);
  return new Error("this server wants a key. Give it to the console of this server, in this tab, and come back.");
}

fetch("openapi.json", key() ? { headers: { Authorization: `Bearer ${key()}` } } : {})
  .then((reply) => (reply.ok ? reply.json() : Promise.reject(refused(reply.status, reply.statusText))))
  .then((api) => {
    document.getElementById("about").prepend(`Release ${api.info.version}. `);
    const find = document.getElementById("find");
    find.addEventListener("input", () => draw(api, find.value.trim().toLowerCase()));
    draw(api, "");
  })
  .catch((error) => place.replaceChildren(make("p", `openapi.json cannot be read: ${error.message}`)));
