// Details of what was chosen in a list: beside it where there is room, else in front of it.
import { html, useRef } from "../vendor/preact.js";
import { Panel } from "./base.js";
import { Dialog } from "./dialog.js";

// The list and this go into an element of class "split". `View` gets all other props; `bare`: without a head of its own.
export function Beside({ title, View, ...rest }) {
  const wide = useRef(matchMedia("(min-width: 1100px)").matches);
  if (wide.current) return html`<${Panel}><${View} ...${rest} /><//>`;
  return html`<${Dialog} title=${title} wide onClose=${rest.onClose}><${View} ...${rest} bare /><//>`;
}
