// Before anything is drawn: the theme that was chosen in this browser. Later: core/theme.js.
try {
  document.documentElement.dataset.theme = localStorage.getItem("jjq-theme") || "auto";
} catch {
  document.documentElement.dataset.theme = "auto"; // storage is switched off
}
