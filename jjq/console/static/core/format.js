// Numbers, sizes, times: always with a unit, always the same.
const WHOLE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 3 });
const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const SIZES = [[2 ** 50, "PiB"], [2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
const SPANS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]];

export const NOTHING = "–";
const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

// 1,234,567
export const whole = (value) => (known(value) ? WHOLE.format(value) : NOTHING);

// 1.23 M
export function short(value) {
  if (!known(value)) return NOTHING;
  const step = STEPS.find(([size]) => Math.abs(value) >= size);
  return step ? `${SHORT.format(value / step[0])} ${step[1]}` : SHORT.format(value);
}

// 12 elements, 1 element
export const count = (value, noun) => (known(value) ? `${whole(value)} ${value === 1 ? noun : `${noun}s`}` : NOTHING);

// 1.23 k/s
export const rate = (value) => (known(value) ? `${short(value)}/s` : NOTHING);

// 1.5 MiB
export function bytes(value) {
  if (!known(value)) return NOTHING;
  const step = SIZES.find(([size]) => Math.abs(value) >= size);
  return step ? `${SHORT.format(value / step[0])} ${step[1]}` : `${SHORT.format(value)} B`;
}

export const byteRate = (value) => (known(value) ? `${bytes(value)}/s` : NOTHING);

// 2.5 s, 3.2 ms, 4 h
export function span(seconds) {
  if (!known(seconds)) return NOTHING;
  if (seconds === 0) return "0 s";
  const step = SPANS.find(([size]) => Math.abs(seconds) >= size) || SPANS[SPANS.length - 1];
  return `${SHORT.format(seconds / step[0])} ${step[1]}`;
}

const two = (n) => String(n).padStart(2, "0");

// 2026-01-31 12:00:00.123, in the time zone of the browser; `title` has UTC as it was sent.
export function time(text, { millis = true } = {}) {
  if (!text) return NOTHING;
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return String(text);
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${day} ${clock}${millis ? `.${String(date.getMilliseconds()).padStart(3, "0")}` : ""}`;
}

// 12 s ago
export function ago(text, now = Date.now()) {
  if (!text) return NOTHING;
  const seconds = (now - new Date(text).getTime()) / 1000;
  const step = SPANS.find(([size]) => seconds >= size);
  return seconds < 1 ? "just now" : `${Math.floor(seconds / step[0])} ${step[1]} ago`;
}

export const percent = (share) => (known(share) ? `${SHORT.format(share * 100)} %` : NOTHING);

export const cut = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);
