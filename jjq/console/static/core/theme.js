// Dark, light, or what the system says; and colours of the style sheet for drawings.
import { cell } from "./cell.js";

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

export const theme = cell(root.dataset.theme || "auto");
export const isDark = () => (theme.value === "auto" ? system.matches : theme.value === "dark");
export const painted = cell(0); // grows when colours have changed

export function setTheme(name) {
  root.dataset.theme = name;
  try {
    localStorage.setItem("jjq-theme", name);
  } catch {
    // it holds until the page is closed
  }
  theme.set(name);
  painted.set(painted.value + 1);
}

system.addEventListener("change", () => painted.set(painted.value + 1));

// The colour of a custom property, as canvas understands it.
export function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
