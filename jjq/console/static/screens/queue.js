// One queue: figures, blocks, elements; push, settings, seal, purge, delete.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { at, get, post } from "../core/api.js";
import { count, rate, short, span, whole } from "../core/format.js";
import { useLoad } from "../core/load.js";
import { useQueueFigures } from "../core/rates.js";
import { refine, to } from "../core/route.js";
import { Ago, Badge, Button, Failure, Loading, Page, Tile, Tiles } from "../parts/base.js";
import { Icon } from "../parts/icon.js";
import { attempt, say } from "../parts/toast.js";
import { Elements } from "./queue/elements.js";
import { Strip } from "./queue/strip.js";
import { Push } from "./queue/push.js";
import { Delete, Purge, Settings } from "./queue/settings.js";
import { Verify } from "./queue/verify.js";

const CRUMBS = [["Queues", to("queues")]];

export function Queue({ params: { queue: name }, query }) {
  const load = useLoad((signal) => get(at`v1/queues/${name}`, {}, { signal }), [name]);
  const heard = useRef(undefined); // a queue that is being deleted is in no sample any more: its last figures stay
  heard.current = useQueueFigures([], [name])[name] || heard.current;
  const live = heard.current;
  const [dialog, open] = useState("");
  const [fresh, renew] = useState(0);
  const readers = live && live.subscribers ? live.subscribers.length : undefined;
  useEffect(() => {
    if (load.data && readers !== undefined && readers !== load.data.subscribers) load.reload();
  }, [readers]);
  if (!load.data)
    return html`<${Page} title=${name} crumbs=${CRUMBS}>${load.error ? html`<${Failure} error=${load.error} retry=${load.reload} />` : html`<${Loading} />`}<//>`;
  const queue = load.data;
  const figures = live || { ...queue, subscribers: null };
  const close = () => open("");
  const seal = () => attempt(async () => {
    await post(at`v1/queues/${name}/seal`);
    say("All elements are in history");
    load.reload();
  });
  const moveTo = (start) => refine({ start });
  const pushButton = html`<${Button} kind="main" onClick=${() => open("push")}><${Icon} name="up" />Push<//>`;
  return html`<${Page} title=${name} crumbs=${CRUMBS} about=${html`<${Badge}>${queue.content}<//> created <${Ago} at=${queue.created} />`}
    actions=${html`${pushButton}
      <${Button} onClick=${() => open("settings")}>Settings<//>
      <${Button} onClick=${() => open("purge")}>Purge…<//>
      <${Button} onClick=${() => open("delete")}>Delete…<//>`}>
    <${Tiles}>
      <${Tile} label="Elements" value=${short(figures.next_offset - figures.first_offset)} note=${`next offset ${whole(figures.next_offset)}`} />
      <${Tile} label="Pushed" value=${live ? rate(live.rate) : "…"} note="elements, this second" />
      <${Tile} label="Last push" value=${live ? html`<${Ago} at=${live.last_push} />` : "…"} note=${`to history after ${span(queue.block_seconds)}`} />
      <${Tile} label="Not in history" value=${short(figures.next_offset - figures.cold_offset)} note="elements, in the journal" />
      <${Tile} label="Subscribers" value=${html`<a href=${to("subscribers", { queue: name })}>${whole(queue.subscribers)}</a>`} note=${slowest(live)} />
      <${Tile} label="Worker groups" value=${live && live.groups ? whole(live.groups.length) : "…"} note=${working(live)} />
    <//>
    <${Strip} queue=${name} figures=${live || (load.data && figures)} moveTo=${moveTo}
      actions=${html`<${Button} kind="small" onClick=${() => open("verify")} title="Read all of the history and check it">Verify<//>
        <${Button} kind="small" onClick=${seal} title="Write the newest elements to history now" disabled=${figures.next_offset === figures.cold_offset}>Seal now<//>`} />
    <${Elements} key=${fresh} queue=${name} content=${queue.content} figures=${live} place=${query.start || ""} moveTo=${moveTo} push=${pushButton} />
    ${dialog === "push" && html`<${Push} queue=${name} content=${queue.content} onClose=${close} onDone=${() => { refine({ start: "" }); renew(fresh + 1); }} />`}
    ${dialog === "verify" && html`<${Verify} queue=${name} onClose=${close} />`}
    ${dialog === "settings" && html`<${Settings} queue=${queue} onClose=${close} onDone=${load.reload} />`}
    ${dialog === "purge" && html`<${Purge} queue=${queue} onClose=${close} onDone=${load.reload} />`}
    ${dialog === "delete" && html`<${Delete} queue=${{ ...queue, next_offset: figures.next_offset }} onClose=${close} />`}
  <//>`;
}

function slowest(live) {
  const [last] = [...((live && live.subscribers) || [])].sort((a, b) => b.lag_seconds - a.lag_seconds);
  return last && last.lag ? `${last.name} is ${span(last.lag_seconds)} behind` : "nobody is behind";
}

function working(live) {
  const taken = ((live && live.groups) || []).reduce((sum, group) => sum + (group.tasks.taken || 0), 0);
  return count(taken, "task") + " taken";
}
