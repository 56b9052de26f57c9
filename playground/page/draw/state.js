// The state of each algorithm at one instant, as a figure: a bucket, a box of a window, a log, a queue.

import { COLUMN, ROW, before, colourOf, mark, number, shape, time } from './marks.js';

const BUCKETS = ['token_bucket', 'gcra', 'leaky_bucket'];

/** One sample of a series, whose numbers playground/engine/README.md describes, as it is at `now`. */
export function sample(series, now) {
  const i = before(series.at, now);
  return i < 0 ? null : series.data.subarray(series.first[i], series.first[i + 1]);
}

/** The units that count at `now`, by a sample from before. */
export function level(limit, values, now) {
  if (!values) return 0;
  if (values.length < 5) return limit.limit - values[3];
  if (BUCKETS.includes(limit.strategy)) {
    const left = (values[5] - now) / (values[5] - values[0]);
    return values[5] <= now ? 0 : values[4] / 1e3 * Math.min(1, left);
  }
  if (limit.strategy === 'sliding_window') return values[4] / 1e3;
  const ended = limit.strategy.endsWith('d_window') || limit.strategy === 'calendar_window' ? values[5] <= now : false;
  return ended ? 0 : values[4];
}

/** What the state says, as text. */
export function words(limit, values, now) {
  const units = level(limit, values, now), most = number(limit.limit);
  switch (limit.strategy) {
    case 'token_bucket': return [`${number(Math.floor(limit.limit - units + 1e-6))} of ${most}`, 'tokens left'];
    case 'gcra': return [units > 0 ? time((values[5] - now)) : 'now', units > 0 ? 'ahead of now' : 'nothing owed'];
    case 'leaky_bucket': return [`${number(Math.ceil(units - 1e-6))} of ${most}`, 'places taken'];
    case 'sliding_window': return [`${number(units)} of ${most}`, 'estimated'];
    case 'sliding_log': return [`${number(units)} of ${most}`, `in the last ${time(limit.period)}`];
    case 'in_flight': return [`${number(units)} of ${most}`, 'in flight'];
    default: return [`${number(units)} of ${most}`, 'in this window'];
  }
}

/** Draws the state into `box`, and returns how many marks that took. `lane` has the rows, and `index` is the last of them.
 * `away` says that the state cannot be reached. */
export function figure(ctx, theme, box, lane, limit, series, now, index, away) {
  const values = sample(series, now), units = level(limit, values, now), colour = colourOf(theme, series.client);
  const texts = words(limit, values, now), narrow = box.w < 76;
  const inner = { x: box.x, y: box.y, w: box.w, h: box.h - (narrow ? 16 : 36) };
  ctx.textAlign = 'center';
  ctx.fillStyle = theme.ink;
  ctx.font = narrow ? theme.small : theme.strong;
  ctx.fillText(texts[0], box.x + box.w / 2, inner.y + inner.h + (narrow ? 13 : 17), box.w);
  if (!narrow) {
    ctx.font = theme.small;
    ctx.fillStyle = theme.soft;
    ctx.fillText(away ? 'in Redis, out of reach' : texts[1], box.x + box.w / 2, inner.y + inner.h + 32, box.w);
  }
  const frame = centred(inner, limit.strategy === 'sliding_log' ? 110 : 84);
  const all = { ctx, theme, colour, lane, limit, series, values, units, now, index, ...frame };
  const draw = { token_bucket: tokens, gcra: ahead, leaky_bucket: queue, sliding_window: estimate, sliding_log: log, in_flight: cells };
  return 3 + (draw[limit.strategy] ?? windowed)(all);
}

function centred(box, most) {
  const w = Math.min(box.w, most);
  return { x: box.x + (box.w - w) / 2, y: box.y, w, h: box.h };
}

/** The walls of a vessel that is open above. */
function vessel({ ctx, theme, x, y, w, h }, outlet = false) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x, y + h - 10);
  ctx.quadraticCurveTo(x, y + h, x + 10, y + h);
  if (outlet) { ctx.lineTo(x + w / 2 - 9, y + h); ctx.moveTo(x + w / 2 + 9, y + h); }
  ctx.lineTo(x + w - 10, y + h);
  ctx.quadraticCurveTo(x + w, y + h, x + w, y + h - 10);
  ctx.lineTo(x + w, y);
  ctx.lineWidth = 2;
  ctx.strokeStyle = theme['edge-strong'];
  ctx.stroke();
}

function dashed({ ctx, theme, x, w }, y, colour = theme.rejected) {
  ctx.beginPath();
  ctx.setLineDash([4, 3]);
  ctx.moveTo(x, y);
  ctx.lineTo(x + w, y);
  ctx.lineWidth = 1.5;
  ctx.strokeStyle = colour;
  ctx.stroke();
  ctx.setLineDash([]);
}

function filled({ ctx, colour, x, w }, y, h, alpha) {
  ctx.globalAlpha = alpha;
  ctx.fillStyle = colour;
  ctx.fillRect(x, y, w, h);
  ctx.globalAlpha = 1;
}

/** A bucket of tokens: each request takes some out, and time puts them back. */
function tokens(all) {
  const { ctx, colour, limit, units, x, y, w, h } = all;
  const left = Math.max(0, limit.limit - units);
  let drawn = 2;
  if (limit.limit <= 20 && h > 60) {
    const columns = limit.limit <= 4 ? 2 : limit.limit <= 12 ? 3 : 4, rows = Math.ceil(limit.limit / columns);
    const step = Math.min((w - 12) / columns, (h - 10) / rows), r = step * .36;
    for (let i = 0; i < limit.limit; i++, drawn++) {
      const part = Math.min(1, Math.max(0, left - i));
      const cx = x + w / 2 + (i % columns - (columns - 1) / 2) * step, cy = y + h - 6 - step * (Math.floor(i / columns) + .5);
      ctx.beginPath();
      ctx.arc(cx, cy, r, 0, 7);
      ctx.globalAlpha = .14;
      ctx.fillStyle = colour;
      ctx.fill();
      ctx.globalAlpha = part < 1 ? .45 : 1;
      ctx.beginPath();
      ctx.moveTo(cx, cy);
      ctx.arc(cx, cy, r, -Math.PI / 2, -Math.PI / 2 + part * 2 * Math.PI);
      ctx.fill();
      ctx.globalAlpha = 1;
    }
  } else {
    const top = y + h - (h - 6) * Math.min(1, left / limit.limit);
    ctx.save();
    ctx.beginPath();
    ctx.roundRect(x + 3, y, w - 6, h - 3, [0, 0, 8, 8]);
    ctx.clip();
    filled(all, top, y + h - top, .3);
    filled(all, top, Math.min(2.5, y + h - top), 1);
    ctx.restore();
  }
  vessel(all);
  return drawn;
}

/** How far the theoretical arrival time is ahead of now: a request passes while it is below the dashed line. */
function ahead(all) {
  const { ctx, theme, limit, units, lane, index, x, y, w, h } = all;
  const cost = index < 0 ? 1 : lane.rows[index * ROW + COLUMN.cost], scale = (h - 14) / Math.max(limit.limit, units, 1);
  const base = y + h - 2, height = units * scale;
  filled(all, base - limit.limit * scale, limit.limit * scale, .1);
  filled(all, base - height, height, .3);
  filled(all, base - height, Math.min(2.5, height), 1);
  ctx.beginPath();
  ctx.moveTo(x - 6, base);
  ctx.lineTo(x + w + 6, base);
  ctx.lineWidth = 2;
  ctx.strokeStyle = theme['edge-strong'];
  ctx.stroke();
  const line = base - Math.max(0, limit.limit - cost) * scale;
  dashed({ ctx, theme, x: x - 6, w: w + 12 }, line - 1);
  ctx.font = theme.small;
  ctx.fillStyle = theme.soft;
  ctx.fillText(units * scale > base - line + .5 ? 'too early' : 'on time', x + w / 2, Math.min(base - 5, base - Math.min(height, h - 24) - 6), w);
  return 6;
}

/** A queue with an outlet: every request leaves in its own slot, one after another. */
function queue(all) {
  const { ctx, theme, limit, lane, series, now, index, x, y, w, h } = all;
  const places = Math.max(1, limit.limit), slot = limit.period / Math.max(1, limit.units), step = (h - 12) / Math.max(places, 3);
  const r = Math.min(7, step * .4, w / 6);
  let drawn = 1, more = 0;
  ctx.save();
  for (let i = index, seen = 0; i >= 0 && seen < 200; i--, seen++) {
    const at = i * ROW, leaves = lane.rows[at] + lane.rows[at + COLUMN.wait], client = lane.rows[at + COLUMN.client];
    if (lane.rows[at + COLUMN.outcome] > 1 || (series.client >= 0 && client !== series.client) || leaves < now - slot / 4) continue;
    if (drawn > 40) { more++; continue; }
    // It sinks to the outlet, where it is when its slot begins, and drops out.
    const up = (leaves - now) / slot;
    ctx.globalAlpha = up < 0 ? Math.max(0, 1 + up * 4) : 1;
    mark(ctx, theme, client, 0, x + w / 2, y + h - 4 - r - up * step, r);
    drawn++;
  }
  ctx.restore();
  if (more) { ctx.fillStyle = theme.soft; ctx.font = theme.small; ctx.fillText(`+ ${more}`, x + w / 2, y + 10); }
  vessel(all, true);
  return drawn;
}

/** The requests of this window, one cell for each, and the time that is left of it. */
function windowed(all) {
  const { ctx, theme, limit, values, now, x, y, w, h } = all;
  const end = values?.length > 5 ? values[5] : 0, rest = end > now ? Math.min(1, (end - now) / limit.period) : 0;
  const drawn = cells({ ...all, h: h - 10 });
  ctx.fillStyle = theme.edge;
  ctx.fillRect(x, y + h - 5, w, 4);
  ctx.fillStyle = theme['edge-strong'];
  ctx.fillRect(x, y + h - 5, w * rest, 4);
  return drawn + 2;
}

function cells(all) {
  const { ctx, theme, colour, limit, units, x, y, w, h } = all;
  if (limit.limit > 30) return column(all, [[units, 1]]);
  const count = Math.max(limit.limit, Math.round(units)), columns = count <= 5 ? 1 : count <= 12 ? 2 : 3, rows = Math.ceil(count / columns);
  const tall = Math.min(h / rows, 22), wide = Math.min(w / columns, 44), left = x + (w - wide * columns) / 2;
  for (let i = 0; i < count; i++) {
    ctx.beginPath();
    ctx.roundRect(left + (i % columns) * wide + 1.5, y + h - tall * (Math.floor(i / columns) + 1) + 1.5, wide - 3, tall - 3, 3);
    ctx.globalAlpha = i < units ? .85 : .14;
    ctx.fillStyle = i >= limit.limit ? theme.rejected : colour;
    ctx.fill();
    ctx.globalAlpha = 1;
  }
  return count;
}

/** A column up to the limit, of parts: units, and how strong they are drawn. */
function column(all, parts) {
  const { ctx, theme, limit, x, y, w, h } = all;
  const sum = parts.reduce((sum, part) => sum + part[0], 0), scale = (h - 6) / Math.max(limit.limit * 1.12, sum, 1);
  let base = y + h;
  for (const [units, alpha] of parts) {
    const high = Math.max(0, units) * scale;
    filled({ ...all, x: x + 6, w: w - 12 }, base - high, high, alpha);
    base -= high;
  }
  ctx.beginPath();
  ctx.moveTo(x, y + h);
  ctx.lineTo(x + w, y + h);
  ctx.lineWidth = 2;
  ctx.strokeStyle = theme['edge-strong'];
  ctx.stroke();
  dashed(all, y + h - limit.limit * scale);
  return parts.length + 2;
}

/** What is left of the past slots, lighter, below the current one. */
function estimate(all) {
  const { ctx, theme, values, units, x, y, w, h, limit } = all;
  const current = values?.length > 6 ? values[6] : 0, past = Math.max(0, units - current);
  const drawn = column(all, [[past, .3], [current, .95]]);
  const scale = (h - 6) / Math.max(limit.limit * 1.12, past + current, 1);
  ctx.font = theme.small;
  ctx.fillStyle = theme.ink;
  if (past * scale > 16) ctx.fillText(`${number(past)} past`, x + w / 2, y + h - past * scale / 2 + 4, w - 14);
  ctx.fillStyle = theme.surface;
  if (current * scale > 16) ctx.fillText(`${number(current)} now`, x + w / 2, y + h - (past + current / 2) * scale + 4, w - 14);
  return drawn + 2;
}

/** The instants of a log: they come in above, grow old, and leave below after a period. */
function log(all) {
  const { ctx, theme, limit, series, now, x, y, w, h } = all;
  const first = before(series.log, now - limit.period) + 1, last = before(series.log, now), step = Math.max(1, Math.ceil((last - first + 1) / 120));
  ctx.strokeStyle = all.colour;
  ctx.lineWidth = 2;
  for (let i = last; i >= first; i -= step) {
    const age = (now - series.log[i]) / limit.period;
    ctx.globalAlpha = age > .94 ? Math.max(0, (1 - age) / .06) : .8;
    ctx.beginPath();
    ctx.moveTo(x + 7, y + 3 + age * (h - 6));
    ctx.lineTo(x + w - 7, y + 3 + age * (h - 6));
    ctx.stroke();
  }
  ctx.globalAlpha = 1;
  ctx.beginPath();
  for (const edge of [x, x + w]) { ctx.moveTo(edge, y); ctx.lineTo(edge, y + h); }
  ctx.lineWidth = 2;
  ctx.strokeStyle = theme['edge-strong'];
  ctx.stroke();
  return 2 + Math.ceil((last - first + 1) / step);
}

/** The units that each instance has in lease. */
export function leases(ctx, theme, box, units) {
  const most = Math.max(20, ...units), wide = Math.min(22, box.w / units.length), left = box.x + (box.w - wide * units.length) / 2;
  units.forEach((value, i) => {
    ctx.fillStyle = theme.all;
    ctx.globalAlpha = .12;
    ctx.fillRect(left + i * wide + 2, box.y, wide - 4, box.h - 16);
    ctx.globalAlpha = .8;
    const high = (box.h - 16) * value / most;
    ctx.fillRect(left + i * wide + 2, box.y + box.h - 16 - high, wide - 4, high);
    ctx.globalAlpha = 1;
  });
  ctx.textAlign = 'center';
  ctx.font = theme.small;
  ctx.fillStyle = theme.soft;
  ctx.fillText('units in lease', box.x + box.w / 2, box.y + box.h - 2, box.w);
  return 2 * units.length + 1;
}

/** The workers of a service, and the requests that wait for one. */
export function service(ctx, theme, box, workers, values) {
  const [, flying, waiting, most] = values, busy = flying - waiting, side = Math.min(14, (box.w - 8) / 5), left = box.x + (box.w - 5 * side) / 2;
  let drawn = 4;
  for (let i = 0; i < Math.min(workers, 40); i++, drawn++) {
    ctx.beginPath();
    shape(ctx, 1, left + (i % 5 + .5) * side, box.y + 8 + Math.floor(i / 5) * side, side * .42);
    ctx.globalAlpha = i < busy ? .9 : .16;
    ctx.fillStyle = theme.c0;
    ctx.fill();
  }
  ctx.globalAlpha = .75;
  const top = box.y + 20 + Math.ceil(Math.min(workers, 40) / 5) * side, rows = Math.max(0, Math.floor((box.y + box.h - 40 - top) / 6));
  const columns = Math.floor(5 * side / 6);
  for (let i = 0; i < Math.min(waiting, rows * columns); i++, drawn++) {
    ctx.fillStyle = theme.rejected;
    ctx.fillRect(left + (i % columns) * 6, top + Math.floor(i / columns) * 6, 4, 4);
  }
  ctx.globalAlpha = 1;
  ctx.textAlign = 'center';
  ctx.font = theme.strong;
  ctx.fillStyle = theme.ink;
  ctx.fillText(`${number(waiting)} waiting`, box.x + box.w / 2, box.y + box.h - 19, box.w);
  ctx.font = theme.small;
  ctx.fillStyle = theme.soft;
  ctx.fillText(most ? `${number(flying)} in flight of ${number(most)}` : `${number(flying)} in flight`, box.x + box.w / 2, box.y + box.h - 4, box.w);
  return drawn;
}
