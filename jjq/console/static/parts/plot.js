// A plot over time or another number, in SVG: axes with units, values under the pointer, colours of the theme.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { byteRate, bytes, short, span as duration, time } from "../core/format.js";

const LEFT = 66; // pixels around the lines
const RIGHT = 28;
const TOP = 8;
const BOTTOM = 24;
const SPAN_LEAST = 60;
const TIMES = [10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800, 2592000];

// times: ascending, seconds since 1970 or (without `clock`) any number; series: {label, values, colour?: name of a custom
// property}; format: number → text with unit. `span` shows at most the last so many seconds; 0: all there are.
export function Plot({ title, times, series, format = short, height = 150, clock = true, span = 0 }) {
  const place = useRef(null);
  const [width, setWidth] = useState(0);
  const [pointer, point] = useState(null); // pixels from the left
  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(place.current.clientWidth));
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  const [first, end] = [times[0] ?? 0, times[times.length - 1] ?? 1];
  const start = span ? Math.max(end - span, Math.min(first, end - SPAN_LEAST)) : first;
  const values = series.flatMap((each) => each.values.filter((value, n) => value !== null && times[n] >= start));
  const low = values.reduce((a, b) => Math.min(a, b), 0);
  const high = values.reduce((a, b) => Math.max(a, b), low) * 1.1 || low + 1;
  const inner = Math.max(1, width - LEFT - RIGHT);
  const bottom = height - BOTTOM;
  const x = (at) => LEFT + ((at - start) / (end - start || 1)) * inner;
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - TOP);
  const near = pointer === null ? -1 : nearest(times, start + ((pointer - LEFT) / inner) * (end - start));
  const shown = near < 0 ? times.length - 1 : near;
  const hue = (n) => ({ "--hue": `var(--${series[n].colour || `s${(n % 6) + 1}`})` });
  const now = series.map((each) => `${each.label} ${format(each.values[shown])}`);
  const stamp = (at, step = 1) => (clock ? time(at * 1000, { millis: false }).slice(step < 86400 ? 11 : 0, step < 86400 ? 19 : 10) : short(at));
  const across = ticks(start, end, inner / 80, clock ? duration : short, clock ? new Date(end * 1000).getTimezoneOffset() * 60 : 0);
  return html`<figure class="plot" role="img" aria-label=${`${title}: ${now.join(", ")}`}>
    <figcaption>${title}</figcaption>
    <div ref=${place} style=${{ height: `${height}px` }}>${width > 0 && times.length > 0 && html`
      <svg width=${width} height=${height} onPointerMove=${(event) => point(event.offsetX)} onPointerLeave=${() => point(null)}>
        ${ticks(low, high, (bottom - TOP) / 28, format).marks.map((value) => html`<line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y(value)} y2=${y(value)} />
          <text class="end" x=${LEFT - 8} y=${y(value) + 4}>${format(value)}</text>`)}
        ${across.marks.map((at) => html`<text x=${x(at)} y=${height - 6}>${stamp(at, across.step)}</text>`)}
        ${series.map((each, n) => html`<g style=${hue(n)}>
          ${lines(times, each.values, start).map((line) => html`
            ${series.length === 1 && html`<path class="area" d=${`M${x(line[0][0])} ${y(0)}L${path(line, x, y)}L${x(line[line.length - 1][0])} ${y(0)}Z`} />`}
            <path class="line" d=${`M${path(line, x, y)}${line.length === 1 ? "h1" : ""}`} />`)}
          ${near >= 0 && each.values[near] != null && html`<circle cx=${x(times[near])} cy=${y(each.values[near])} r="3" />`}
        </g>`)}
        ${near >= 0 && html`<line class="cursor" x1=${x(times[near])} x2=${x(times[near])} y1=${TOP} y2=${bottom} />`}
      </svg>`}</div>
    <p class="legend">${near >= 0 && html`<b>${stamp(times[near])}</b>`}${series.map((each, n) => html`<span style=${hue(n)}>${each.label} <b>${times.length ? format(each.values[shown]) : "–"}</b></span>`)}</p>
  </figure>`;
}

// Round numbers between two, at most `most` of them. Which ones are round is different in bytes and in minutes.
function ticks(low, high, most, format, offset = 0) {
  const least = Math.max((high - low) / Math.max(1, most), 1e-12);
  const power = 10 ** Math.floor(Math.log10(least));
  const binary = format === bytes || format === byteRate;
  const step = (format === duration && least > 5 && TIMES.find((each) => each >= least)) || (binary ? 2 ** Math.max(0, Math.ceil(Math.log2(least))) : [1, 2, 5, 10].find((n) => n * power >= least) * power);
  const marks = [];
  for (let n = Math.ceil((low - offset) / step); n * step + offset <= high && marks.length < 50; n++) marks.push(n * step + offset);
  return { step, marks };
}

// The points of a series from `start` on, in pieces: a value that is missing is a gap.
function lines(times, values, start) {
  const found = [];
  let open = false;
  times.forEach((at, n) => {
    const there = at >= start && values[n] !== null && values[n] !== undefined;
    if (there && !open) found.push([]);
    if (there) found[found.length - 1].push([at, values[n]]);
    open = there;
  });
  return found;
}

const path = (line, x, y) => line.map(([at, value]) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("L");

function nearest(times, at) {
  let [low, high] = [0, times.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (times[middle] < at) low = middle;
    else high = middle;
  }
  return high >= 0 && Math.abs(times[high] - at) < Math.abs(times[low] - at) ? high : low;
}
