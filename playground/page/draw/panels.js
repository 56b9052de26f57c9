// What is drawn below the marks besides the states: the work of a service, and what was admitted in the last period.

import { COLUMN, ROW, colourOf, line, shape } from './marks.js';

/** The requests in flight, which run or wait, and the limit of the shedding. */
export function drawService(ctx, chart, base, scale) {
  const { theme, lane: { service } } = chart, area = (value, colour, alpha) => {
    ctx.beginPath();
    ctx.moveTo(chart.x(service[0][0]), base);
    for (const values of service) ctx.lineTo(chart.x(values[0]), base - value(values) * scale);
    ctx.lineTo(chart.x(service.at(-1)[0]), base);
    ctx.globalAlpha = alpha;
    ctx.fillStyle = colour;
    ctx.fill();
    ctx.globalAlpha = 1;
  };
  area(values => values[1], theme.rejected, .4);
  area(values => values[1] - values[2], theme.c0, 1);
  if (!service[0][3]) return;
  ctx.beginPath();
  for (const values of service) ctx.lineTo(chart.x(values[0]), base - values[3] * scale);
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 1.4;
  ctx.stroke();
}

/** How long each request took, at the instant of its end, on a scale of powers of ten. */
export function drawLatency(ctx, chart, top) {
  const { theme, lane: { rows } } = chart, y = micros => top + chart.panel * (1 - (Math.log10(Math.max(1e4, micros)) - 4) / 3);
  for (const micros of [1e5, 1e6, 1e7]) line(ctx, 0, y(micros), chart.right, y(micros), theme.edge);
  for (let at = 0; at < rows.length; at += ROW) {
    if (rows[at + COLUMN.outcome] > 1 || rows[at + COLUMN.end] < 0) continue;
    ctx.beginPath();
    shape(ctx, rows[at + COLUMN.client], chart.x(rows[at + COLUMN.end]), y(rows[at + COLUMN.end] - rows[at]), 1.7);
    ctx.fillStyle = colourOf(theme, rows[at + COLUMN.client]);
    ctx.fill();
  }
}

/** For each key the units that were admitted in the last period, as steps of instant and units. */
export function recent({ rows }, { period }, { key, settle }) {
  const keys = new Map();
  for (let at = 0; at < rows.length; at += ROW) {
    if (rows[at + COLUMN.outcome] > 1) continue;
    const client = key === 'all' ? -1 : rows[at + COLUMN.client], starts = rows[at] + Math.max(0, rows[at + COLUMN.wait]);
    const used = rows[at + COLUMN.used], units = settle && used >= 0 ? used : rows[at + COLUMN.cost];
    if (!keys.has(client)) keys.set(client, []);
    keys.get(client).push([starts, units], [starts + period, -units]);
  }
  return [...keys].map(([client, changes]) => {
    let units = 0;
    // What is a period old leaves before the next one comes.
    const steps = changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([at, by]) => [at, units += by]);
    return { client, steps, most: steps.reduce((most, step) => Math.max(most, step[1]), 0) };
  });
}

/** Draws these steps; what is above `limit` stands out. */
export function drawRecent(ctx, chart, base, scale, limit) {
  for (const { client, steps } of chart.recent) {
    const path = new Path2D();
    let last = base;
    path.moveTo(chart.x(steps[0][0]), base);
    for (const [at, units] of steps) {
      path.lineTo(chart.x(at), last);
      path.lineTo(chart.x(at), last = base - units * scale);
    }
    path.lineTo(chart.right + 9, last);
    path.lineTo(chart.right + 9, base + 9);
    path.lineTo(chart.x(steps[0][0]), base + 9);
    const draw = (colour, top, height) => {
      ctx.save();
      ctx.beginPath();
      ctx.rect(0, top, chart.right, height);
      ctx.clip();
      ctx.globalAlpha = .14;
      ctx.fillStyle = ctx.strokeStyle = colour;
      ctx.fill(path);
      ctx.globalAlpha = 1;
      ctx.lineWidth = 1.8;
      ctx.lineJoin = 'round';
      ctx.stroke(path);
      ctx.restore();
    };
    const edge = base - limit * scale - .5;
    draw(colourOf(chart.theme, client), edge, base - edge);
    draw(chart.theme.rejected, 0, edge);
  }
}
