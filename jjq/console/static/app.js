// The frame around all screens: menu, banner, key dialog, keyboard.
import { html, render, useEffect, useErrorBoundary, useState } from "./vendor/preact.js";
import { get, key, keyWanted, reachable, setKey } from "./core/api.js";
import { useCell } from "./core/cell.js";
import { match, route, to } from "./core/route.js";
import { setTheme, theme } from "./core/theme.js";
import { Button, Empty, Failure } from "./parts/base.js";
import { Dialog } from "./parts/dialog.js";
import { Form, Text } from "./parts/form.js";
import { Icon } from "./parts/icon.js";
import { Toasts } from "./parts/toast.js";
import { screens } from "./screens.js";

const THEMES = { auto: ["dark", "System colours"], dark: ["light", "Dark"], light: ["auto", "Light"] };

function Menu({ current, askKey }) {
  const chosen = useCell(theme);
  const [next, name] = THEMES[chosen] || THEMES.auto;
  const held = useCell(key);
  return html`<aside class="menu">
    <a class="brand" href="#/" aria-label="jjq, overview"><img src="console/icon.svg" alt="" width="22" height="22" />jjq</a>
    <nav aria-label="Screens">
      ${screens.filter((each) => each.nav).map((each) => html`<a href=${`#${each.path}`}
        aria-current=${each.nav === current ? "page" : undefined}>${each.nav}</a>`)}
    </nav>
    <div class="foot">
      <button type="button" class="button quiet" onClick=${askKey} aria-label=${held ? `Key ${held.split("_")[1] || ""}: change it` : "No key: use one"} title="The key that this page sends">
        <${Icon} name="key" /><span class="word">${held ? `Key ${held.split("_")[1] || ""}` : "No key"}</span></button>
      <button type="button" class="button quiet" onClick=${() => setTheme(next)} aria-label=${`Colours: ${name}. Change`} title="Colours">
        <${Icon} name=${chosen} /><span class="word">${name}</span></button>
      <a class="button quiet" href="docs" aria-label="HTTP docs" title="The HTTP interface"><${Icon} name="book" /><span class="word">HTTP docs</span></a>
    </div>
  </aside>`;
}

function Banner() {
  const here = useCell(reachable);
  const [was, remember] = useState(false);
  useEffect(() => {
    if (!here) return remember(true);
    if (!was) return undefined;
    const timer = setTimeout(() => remember(false), 4000);
    return () => clearTimeout(timer);
  }, [here]);
  if (!here) return html`<div class="banner bad" role="alert"><span class="pulse" aria-hidden="true"></span>The server does not answer. What you see may be old; it is asked again every few seconds.</div>`;
  return was ? html`<div class="banner good" role="status">The server is back.</div>` : null;
}

function KeyDialog({ problem, onClose }) {
  const [text, set] = useState("");
  const submit = async () => {
    const given = text.trim();
    await get("v1/status", {}, { headers: { Authorization: `Bearer ${given}` } });
    setKey(given);
    onClose();
  };
  return html`<${Dialog} title="Key" onClose=${onClose}>
    <p>${problem ? "This server wants a key." : "The key that this page shows to the server."} It is kept in this tab until the tab is closed, and sent to nobody else.</p>
    <${Form} submit=${submit} verb="Use this key" ready=${text.trim() !== ""} onCancel=${onClose}>
      <${Text} label="Key" type="password" value=${text} onInput=${set} placeholder="jjq_…" autofocus
        hint="jjq key create --scope admin makes one." />
    <//>
    ${key.value && html`<p><${Button} kind="quiet" onClick=${() => { setKey(""); onClose(); }}>Forget the key of this tab<//></p>`}
  <//>`;
}

function Screen({ found, query }) {
  const [crash, again] = useErrorBoundary();
  useEffect(() => crash && again(), [found.screen]);
  if (crash) return html`<${Failure} error=${crash} retry=${again} />`;
  return html`<${found.screen.view} key=${JSON.stringify(found.params)} params=${found.params} query=${query} />`;
}

function App() {
  const here = useCell(route);
  const wanted = useCell(keyWanted);
  const [asking, ask] = useState(false);
  const found = match(screens, here.parts);
  const current = found && (found.screen.nav || found.screen.under);
  useEffect(() => {
    document.title = [...here.parts.slice(1).reverse(), current || "Not found", "jjq"].join(" · ");
  }, [here.path]);
  useEffect(() => {
    const title = document.querySelector("main h1");
    if (title && document.activeElement !== document.body) title.focus();
  }, [here.path]);
  const close = () => {
    ask(false);
    keyWanted.set(null);
  };
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
    <${Menu} current=${current} askKey=${() => ask(true)} />
    <main id="main" tabindex="-1">
      <${Banner} />
      ${found
        ? html`<${Screen} found=${found} query=${here.query} />`
        : html`<${Empty} title="There is nothing here" action=${html`<a class="button" href=${to()}>Overview</a>`}>No screen has the address ${here.path}.<//>`}
    </main>
    ${(asking || wanted) && html`<${KeyDialog} problem=${wanted} onClose=${close} />`}
    <${Toasts} />`;
}

// / leads to the search box of the screen; Escape leaves it.
addEventListener("keydown", (event) => {
  const inField = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "/" && !inField && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const box = document.querySelector("[data-search]");
    if (!box) return;
    event.preventDefault();
    box.focus();
    box.select();
  } else if (event.key === "Escape" && inField && inField.matches("[data-search]")) {
    inField.blur();
  }
});

const place = document.getElementById("app");
place.replaceChildren();
render(html`<${App} />`, place);
