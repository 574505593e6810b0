// The object of an element: a picture is shown, everything else can be saved.
import { html, useEffect, useState } from "../../vendor/preact.js";
import { at, request } from "../../core/api.js";
import { bytes } from "../../core/format.js";
import { useLoad } from "../../core/load.js";
import { Button, Failure } from "../../parts/base.js";
import { download } from "../../parts/download.js";

const PICTURE = /^image\/(png|jpeg|gif|webp|avif|bmp)$/; // formats in which nothing runs
const PICTURE_BYTES = 32 * 2 ** 20; // a larger one can be saved

// What the header of an element says of its object.
export function objectOf({ headers }) {
  try {
    return JSON.parse(headers["jjq-object"]);
  } catch {
    return null;
  }
}

export function ObjectView({ queue, offset, named: { sha256, size, type, name = sha256 } }) {
  const read = async (signal) => (await request("GET", at`v1/queues/${queue}/elements/${offset}/object`, { accept: "*/*", signal })).blob();
  const load = useLoad((signal) => PICTURE.test(type) && size <= PICTURE_BYTES && read(signal), [queue, offset]);
  const [picture, show] = useState();
  useEffect(() => {
    const url = load.data && URL.createObjectURL(load.data);
    show(url);
    return () => URL.revokeObjectURL(url);
  }, [load.data]);
  return html`<div class="row value-bar">
      <span class="grow">${name} <span class="dim">${type} ${bytes(size)}</span></span>
      <${Button} kind="small" onClick=${async () => download(name, load.data || (await read()))}>Save<//>
    </div>
    ${load.error && html`<${Failure} error=${load.error} retry=${load.reload} />`}
    ${picture && html`<img class="value" src=${picture} alt=${name} />`}`;
}
