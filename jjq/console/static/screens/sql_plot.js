// Rows of a query as a plot: over time or a number as lines, over names as bars.
import { html, useState } from "../vendor/preact.js";
import { isNumber, isTime } from "../core/columns.js";
import { short } from "../core/format.js";
import { Select } from "../parts/form.js";
import { Plot } from "../parts/plot.js";

const BARS = 60;

const numbers = (result) => result.columns.map((_, n) => n).filter((n) => isNumber(result.types[n]));

export function ResultPlot({ result }) {
  const places = result.columns.map((_, n) => n);
  const natural = [...places.filter((n) => isTime(result.types[n])), ...places.filter((n) => !isNumber(result.types[n]) && !isTime(result.types[n])), ...places];
  const [across, setAcross] = useState(natural[0]);
  const rest = numbers(result).filter((n) => n !== across);
  const [up, setUp] = useState("");
  const type = result.types[across];
  const bars = !isTime(type) && !isNumber(type);
  const chosen = up !== "" && rest.includes(Number(up));
  const drawn = chosen ? [Number(up)] : rest.slice(0, bars ? 1 : 6);
  return html`
    <div class="fields">
      <${Select} label="Across" value=${String(across)} options=${places.map((n) => [String(n), result.columns[n]])} onInput=${(n) => setAcross(Number(n))} />
      <${Select} label="Up" value=${chosen || bars ? String(drawn[0]) : ""} options=${[...(bars ? [] : [["", "all numbers"]]), ...rest.map((n) => [String(n), result.columns[n]])]} onInput=${setUp} />
    </div>
    ${drawn.length === 0 ? html`<p class="dim">There is no other number to draw.</p>`
      : bars ? html`<${Bars} result=${result} across=${across} up=${drawn[0]} />` : html`<${Lines} result=${result} across=${across} drawn=${drawn} time=${isTime(type)} />`}`;
}

function Lines({ result, across, drawn, time }) {
  const value = (cell) => (cell === null ? null : Number(cell));
  const rows = result.rows.filter(({ cells }) => cells[across] !== null)
    .map(({ cells }) => [time ? Date.parse(cells[across]) / 1000 : Number(cells[across]), cells]).sort(([a], [b]) => a - b);
  const series = drawn.map((n) => ({ label: result.columns[n], values: rows.map(([, cells]) => value(cells[n])) }));
  return html`<${Plot} title=${`${drawn.map((n) => result.columns[n]).join(", ")} by ${result.columns[across]}`} times=${rows.map(([at]) => at)} series=${series} height=${320} clock=${time} />`;
}

function Bars({ result, across, up }) {
  const rows = result.rows.slice(0, BARS).map(({ cells }) => [cells[across] === null ? "null" : String(cells[across]), Number(cells[up])]);
  const most = Math.max(...rows.map(([, n]) => Math.abs(n)), 1e-9);
  return html`<figure><figcaption class="note">${result.columns[up]} by ${result.columns[across]}${result.rows.length > BARS ? `, the first ${BARS} rows` : ""}</figcaption>
    <ul class="bars">${rows.map(([name, n]) => html`<li><span class="name" title=${name}>${name}</span>
      <span class="meter"><span style=${{ width: `${(100 * Math.abs(n)) / most}%` }}></span></span><span class="right">${short(n)}</span></li>`)}</ul></figure>`;
}
