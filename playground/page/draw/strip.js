// The marks of the requests along the line of time: admitted ones above it, rejected ones below.

import { COLUMN, ROW, colourOf, line, mark } from './marks.js';
import { level } from './state.js';

export const STRIP = 100;
const BIN = 5, GAP = 1.2;

const placeOf = (x, from, to, right) => 7 + (x - from) / (to - from) * (right - 14);

/** The part of a scene in which something happens. */
export function viewOf({ lanes, duration }) {
  let first = duration, last = 0;
  for (const { rows } of lanes) for (let at = 0; at < rows.length; at += ROW) {
    first = Math.min(first, rows[at]);
    last = Math.max(last, rows[at] + Math.max(0, rows[at + COLUMN.wait]));
  }
  if (last <= first) return { from: 0, to: duration };
  const span = last - first;
  return { from: Math.max(0, first - .6 * span), to: Math.min(duration, last + .5 * span) };
}

/** What the lanes of a scene have in common: the size of marks, or of bars if there are too many, and where the line is. */
export function sharing(result, { from, to }, right, clients) {
  const most = (radius, lane) => {
    const ends = [[], []];
    for (let at = 0; at < lane.rows.length; at += ROW) {
      const stack = ends[lane.rows[at + COLUMN.outcome] > 1 ? 1 : 0], x = placeOf(lane.rows[at], from, to, right);
      let place = 0;
      while (stack[place] > x - 2 * radius - .6) if (++place > 40) break;
      stack[place] = x;
    }
    return ends.map(stack => stack.length);
  };
  const highest = lists => lists.reduce((all, one) => one.map((value, i) => Math.max(value, all[i])), [0, 0]);
  for (const radius of [5, 4, 3.2, 2.5]) {
    const [up, down] = highest(result.lanes.map(lane => most(radius, lane)));
    const step = 2 * radius + GAP;
    if ((up + down) * step + 16 <= STRIP) return { radius, unit: 0, middle: Math.round(Math.max(8 + up * step, Math.min(STRIP / 2, STRIP - 8 - down * step))), clients };
  }
  const [up, down] = highest(result.lanes.map(({ rows }) => {
    const bins = [new Map(), new Map()];
    for (let at = 0; at < rows.length; at += ROW) {
      const bin = Math.floor(placeOf(rows[at], from, to, right) / BIN), counts = bins[rows[at + COLUMN.outcome] > 1 ? 1 : 0];
      counts.set(bin, (counts.get(bin) ?? 0) + 1);
    }
    return bins.map(counts => counts.size ? [...counts.values()].reduce((a, b) => Math.max(a, b)) : 0);
  }));
  const unit = (STRIP - 12) / Math.max(1, up + down);
  return { radius: 0, unit, middle: Math.round(Math.max(12, Math.min(STRIP - 12, 6 + up * unit))), clients };
}

/** The most units of a lane under a limit at any instant. */
export function highestLevel(lane, i) {
  let most = 0;
  for (const { at, first, data } of lane.series[i]) {
    for (let k = 0; k < at.length; k++) most = Math.max(most, level(lane.limits[i], data.subarray(first[k], first[k + 1]), at[k]));
  }
  return most;
}

/** Draws one mark for each request, in stacks. Returns how high each is. */
export function drawMarks(ctx, chart) {
  const { theme, lane: { rows }, shared: { radius, middle } } = chart, count = rows.length / ROW;
  const heights = new Float32Array(count), ends = [[], []];
  let least = Infinity;
  for (let at = 0; at < rows.length; at += ROW) least = Math.min(least, rows[at + COLUMN.cost]);
  for (let i = 0; i < count; i++) {
    const at = i * ROW, x = chart.x(rows[at]), outcome = rows[at + COLUMN.outcome], stack = ends[outcome > 1 ? 1 : 0], client = rows[at + COLUMN.client];
    let place = 0;
    while (stack[place] > x - 2 * radius - .6) place++;
    stack[place] = x;
    const y = heights[i] = middle + (outcome > 1 ? 1 : -1) * (radius + 4 + place * (2 * radius + GAP));
    const starts = rows[at] + Math.max(0, rows[at + COLUMN.wait]), until = rows[at + COLUMN.end];
    if (outcome < 2 && starts > rows[at]) {
      // A wait is a line to the slot.
      line(ctx, x, y, chart.x(starts), y, colourOf(theme, client), 1.5);
      line(ctx, chart.x(starts), y - 4, chart.x(starts), y + 4, colourOf(theme, client), 1.5);
    }
    if (outcome < 2 && until > starts) {
      // The time that a request runs is a shade.
      ctx.globalAlpha = .22;
      line(ctx, chart.x(starts), y, chart.x(until), y, colourOf(theme, client), Math.max(2, radius));
      ctx.globalAlpha = 1;
    }
    // What costs more is larger.
    const size = Math.min(1.2, Math.sqrt(rows[at + COLUMN.cost] / Math.max(1, least)));
    mark(ctx, theme, client, outcome, x, y, radius * size, rows[at + COLUMN.mode] === 1);
  }
  return heights;
}

/** Draws bars, where marks would not fit. The bars of clients differ by their texture as well as by colour. */
export function drawBars(ctx, chart) {
  const { theme, lane: { rows }, shared: { unit, middle, clients } } = chart, bins = new Map(), heights = new Map();
  for (let at = 0; at < rows.length; at += ROW) {
    const place = Math.floor(chart.x(rows[at]) / BIN) * 2 + (rows[at + COLUMN.outcome] > 1), key = place * 16 + rows[at + COLUMN.client];
    bins.set(key, (bins.get(key) ?? 0) + 1);
  }
  for (const [key, count] of [...bins].sort((a, b) => a[0] - b[0])) {
    const client = ((key % 16) + 16) % 16, place = (key - client) / 16, down = ((place % 2) + 2) % 2, x = (place - down) / 2 * BIN;
    const from = heights.get(place) ?? 1.5, high = count * unit, y = down ? middle + from : middle - from - high;
    heights.set(place, from + high);
    ctx.fillStyle = down && clients === 1 ? theme.rejected : colourOf(theme, client);
    ctx.globalAlpha = down ? clients === 1 ? .7 : .45 : .95;
    if (client % 3 === 1) for (let part = 0; part < high; part += 5) ctx.fillRect(x, y + part, BIN - 1, Math.min(4, high - part));
    else if (client % 3 === 2) { ctx.fillRect(x, y, 1.4, high); ctx.fillRect(x + BIN - 2.4, y, 1.4, high); } else ctx.fillRect(x, y, BIN - 1, high);
    ctx.globalAlpha = 1;
  }
  ctx.fillStyle = theme.rejected;
  for (const [place, high] of heights) {
    const down = ((place % 2) + 2) % 2;
    if (down && clients > 1) ctx.fillRect((place - down) / 2 * BIN, middle + high, BIN - 1, 1.5);
  }
}
