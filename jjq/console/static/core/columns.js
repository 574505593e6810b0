// Columns of a query: what their types, those of Arrow, can be used for.
export const isNumber = (type) => /^(u?int|float|double|half|decimal)/.test(type);
export const isTime = (type) => /^(timestamp|date)/.test(type);

// Whether rows can be drawn: something to go along, and a number to show.
export const canPlot = (result) => Boolean(result && result.rows.length > 1 && result.columns.length > 1 && result.types.some(isNumber));
