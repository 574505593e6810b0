// Files that are made in the page.
export function download(name, content, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Rows as CSV (RFC 4180). A text that a spreadsheet would run as a formula gets a quote in front.
export function csv(columns, rows) {
  const text = (value) => {
    if (value === null || value === undefined) return "";
    let plain = typeof value === "object" ? JSON.stringify(value) : String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(plain)) plain = `'${plain}`;
    return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
  };
  return `${[columns, ...rows].map((row) => row.map(text).join(",")).join("\r\n")}\r\n`;
}
