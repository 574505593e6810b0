// Icons, drawn in the colour of the text around them.
import { html } from "../vendor/preact.js";

const PATHS = {
  key: "M10.5 2a3.5 3.5 0 0 0-3.3 4.7L2 12v2h2.5v-1.5H6V11h1.5l1.3-1.3A3.5 3.5 0 1 0 10.5 2zm.8 3.2h.01",
  dark: "M13 9.7A5.5 5.5 0 0 1 6.3 3 5.5 5.5 0 1 0 13 9.7z",
  light: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M12.6 3.4l-.7.7M4.1 11.9l-.7.7",
  auto: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
  book: "M3 2.5h7.5A1.5 1.5 0 0 1 12 4v9.5H4.5A1.5 1.5 0 0 1 3 12zM3 12a1.5 1.5 0 0 1 1.5-1.5H12M5.5 5.5h4",
  close: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  down: "M8 2.5v7.5M4.5 7L8 10.5 11.5 7M3 13.5h10",
  up: "M8 10.5V3M4.5 6L8 2.5 11.5 6M3 13.5h10",
  play: "M5 3.5l7 4.5-7 4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  older: "M10 3.5L5.5 8l4.5 4.5",
  newer: "M6 3.5L10.5 8 6 12.5",
};

export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
  <path d=${PATHS[name]} fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round" /></svg>`;
