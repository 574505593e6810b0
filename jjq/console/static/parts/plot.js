// A plot over time, by uPlot: axes with units, values under the pointer, colours of the theme.
import { html, useEffect, useRef } from "../vendor/preact.js";
import { useCell } from "../core/cell.js";
import { byteRate, bytes, short, span as duration, time } from "../core/format.js";
import { colour, painted } from "../core/theme.js";

const SPAN_LEAST = 60;

// times: seconds since 1970; series: {label, values, colour?: name of a custom property}; format: number → text with unit.
// `span` shows at most the last so many seconds; 0: all there are.
export function Plot({ title, times, series, format = short, height = 150, fill = true, clock = true, span = 0 }) {
  const place = useRef(null);
  const plot = useRef(null);
  const paint = useCell(painted);
  const labels = series.map((each) => each.label).join("\n");
  const data = [times, ...series.map((each) => each.values)];
  const newest = useRef(data);
  newest.current = data;
  useEffect(() => {
    const box = place.current;
    const watch = new ResizeObserver(() => plot.current && plot.current.setSize({ width: box.clientWidth, height }));
    let gone = false;
    library().then((uPlot) => {
      if (gone) return;
      plot.current = new uPlot(options(box, series, format, height, fill, clock, span), newest.current, box);
      watch.observe(box);
    }, () => {}); // without it the figures stand beside the plot, and the next plot tries again
    return () => {
      gone = true;
      watch.disconnect();
      if (plot.current) plot.current.destroy();
      plot.current = null;
    };
  }, [labels, paint, height]);
  useEffect(() => plot.current && plot.current.setData(data));
  const now = series.map((each) => `${each.label} ${format(lastOf(each.values))}`).join(", ");
  return html`<figure class="plot" role="img" aria-label=${`${title}: ${now}`}>
    <figcaption>${title}</figcaption>
    <div ref=${place} style=${{ minHeight: `${height + 20}px` }}></div>
  </figure>`;
}

// A third of the console is this library: it is loaded with the first plot. It is no module, so by a script element.
let loading = null;
function library() {
  loading ??= new Promise((done, failed) => {
    const tag = document.createElement("script");
    tag.src = new URL("../vendor/uplot.js", import.meta.url);
    tag.onload = () => done(window.uPlot);
    tag.onerror = () => {
      loading = null;
      failed(new Error("the library of plots cannot be loaded"));
    };
    document.head.append(tag);
  });
  return loading;
}

// Round numbers on the axis are other ones in bytes and in minutes.
const POWERS = Array.from({ length: 60 }, (_, n) => 2 ** n);
const TIMES = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1].flatMap((n) => [n, 2 * n, 5 * n]).concat([10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800]);
const steps = (format) => (format === bytes || format === byteRate ? POWERS : format === duration ? TIMES : undefined);
const hour = (at) => time(at * 1000, { millis: false }).slice(11);
const lastOf = (values) => (values.length ? values[values.length - 1] : null);

function options(box, series, format, height, fill, clock, span) {
  const ink = colour("dim");
  const grid = { stroke: colour("line-soft"), width: 1 };
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  return {
    width: box.clientWidth || 300,
    height,
    padding: [8, 28, 0, 0],
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    legend: { live: true },
    scales: { x: { time: clock, range: span ? (plot, low, high) => [Math.max(high - span, Math.min(low, high - SPAN_LEAST)), high] : undefined }, y: { range: (plot, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.1 : 1] } },
    axes: [
      { stroke: ink, grid: { show: false }, ticks: { show: false }, font, size: 24, space: 80, values: clock ? (plot, values) => values.map(hour) : undefined },
      { stroke: ink, grid, ticks: { show: false }, font, size: 66, space: 28, incrs: steps(format), values: (plot, values) => values.map(format) },
    ],
    series: [
      { label: "", value: (plot, at) => (at === null ? "" : clock ? hour(at) : format(at)) },
      ...series.map((each, n) => {
        const stroke = colour(each.colour || `s${(n % 6) + 1}`);
        return {
          label: each.label,
          stroke,
          width: 1.5,
          fill: fill && series.length === 1 ? stroke.replace("rgb(", "rgba(").replace(")", ", .12)") : undefined,
          points: { show: false },
          spanGaps: false,
          value: (plot, value) => format(value ?? lastOf(plot.data[n + 1])),
        };
      }),
    ],
  };
}
