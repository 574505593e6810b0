// Dark, light, or what the system says. The style sheet has the colours; early.js sets what was chosen before.
import { cell } from "./cell.js";

const root = document.documentElement;

export const theme = cell(root.dataset.theme || "auto");

export function setTheme(name) {
  root.dataset.theme = name;
  try {
    localStorage.setItem("jjq-theme", name);
  } catch {
    // it holds until the page is closed
  }
  theme.set(name);
}
