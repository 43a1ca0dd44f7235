/**
 * The numbers behind a chart as files: CSV and JSON, made of what the page has.
 */

/**
 * A table as CSV: RFC 4180, with a header. Text that a spreadsheet would take for a formula gets an apostrophe in
 * front.
 *
 * @param {{columns: string[], rows: Array<Array<string|number|boolean|null>>}} table
 * @returns {string}
 */
export function csv({ columns, rows }) {
    return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value) {
    if (value === null || value === undefined) return "";
    if (typeof value !== "string") return String(value);
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/**
 * Save text as a file.
 *
 * @param {string} name of the file
 * @param {string} text
 * @param {string} type media type
 */
export function save(name, text, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
