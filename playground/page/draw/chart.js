// The time line of a lane: marks of the requests, and below them the state. What does not change is drawn once, on layers.

import { COLUMN, ROW, before, colourOf, line, mark, number, shape, time } from './marks.js';
import { drawLatency, drawRecent, drawService, recent } from './panels.js';
import { figure, leases, level, sample, service } from './state.js';
import { STRIP, drawBars, drawMarks, highestLevel } from './strip.js';

const AXIS = 22, GAP = 20, WINDOWS = ['fixed_window', 'calendar_window', 'sliding_window'];
const LABELS = { token_bucket: 'tokens', gcra: 'time owed', leaky_bucket: 'queue', sliding_window: 'estimate', in_flight: 'in flight' };

/** The width of the time line in a lane of some width; the figure of the state is beside it. */
export const timeLine = width => width < 560 ? width - 96 : width - 186;

export class Chart {
  constructor(canvas) {
    this.canvas = canvas;
    this.ctx = canvas.getContext('2d');
    this.outages = [];
  }

  /** Takes what is to be drawn. `shared` has what all lanes of a scene have in common, and `view` the time that is shown. */
  show(scene, lane, settings, shared, view) {
    Object.assign(this, { scene, lane, settings, shared, view, past: null });
    this.outages = settings.outages ?? [];
    lane.serviceAt = Float64Array.from(lane.service, values => values[0]);
    lane.leasesAt = Float64Array.from(lane.leases, values => values[0]);
    this.panels = this.describe();
  }

  /** What is below the marks: the most that fits, where a line is, a label, and how it is drawn. */
  describe() {
    const { lane, settings } = this;
    const panels = lane.limits.map((limit, i) => {
      const tokens = limit.strategy === 'token_bucket', share = settings.store === 'share' && settings.instances > 1 ? [limit.limit / settings.instances] : [];
      return {
        high: tokens ? limit.limit * 1.02 : Math.max(limit.limit, highestLevel(lane, i)) * 1.12, lines: tokens ? [] : [limit.limit, ...share],
        label: `${lane.limits.length > 1 ? `${limit.name}: ` : ''}${LABELS[limit.strategy] ?? 'units that count'}`,
        draw: (ctx, top, scale) => { for (const series of lane.series[i]) this.drawSeries(ctx, limit, series, top + this.panel, scale, lane.series[i].length); },
      };
    });
    const [limit] = lane.limits;
    if (this.shared.recent && lane.limits.length === 1 && limit.period) {
      this.recent = recent(lane, limit, settings.limits[0]);
      panels.push({
        high: Math.max(limit.units, limit.most, limit.bound ?? 0) * 1.1, lines: [limit.units, ...(limit.bound > limit.units ? [limit.bound] : [])],
        label: `admitted in the last ${time(limit.period)}: limit dashed, bound dotted`, draw: (ctx, top, scale) => drawRecent(ctx, this, top + this.panel, scale, limit.units),
      });
    }
    if (lane.service.length) {
      const most = lane.service.reduce((most, values) => Math.max(most, values[1], values[3]), 20);
      panels.push({ high: most * 1.05, lines: [], label: `in flight, up to ${number(most)}: running, waiting (light)${lane.service[0][3] ? ', limit (line)' : ''}`, draw: (ctx, top, scale) => drawService(ctx, this, top + this.panel, scale) });
      panels.push({ high: 1, lines: [], label: 'latency: lines at 100 ms, 1 s and 10 s', draw: (ctx, top) => drawLatency(ctx, this, top) });
    }
    return panels;
  }

  /** Lays out and draws the layers anew. */
  layout(theme) {
    this.theme = theme;
    const { canvas, panels } = this, width = canvas.parentElement.clientWidth, ratio = Math.min(2, devicePixelRatio || 1);
    this.panel = panels.length > 1 ? 76 : width < 560 ? 80 : 92;
    Object.assign(this, { width, ratio, right: timeLine(width), side: width < 560 ? 84 : 150, height: STRIP + panels.length * (this.panel + GAP) + AXIS });
    canvas.style.height = `${this.height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(this.height * ratio);
    this.base = this.layer(ctx => this.drawBase(ctx));
    this.future = this.layer(ctx => this.drawFuture(ctx));
    this.past = this.layer(ctx => this.drawPast(ctx));
  }

  /** Frees the layers, while they are out of sight. */
  release() {
    this.base = this.past = this.future = null;
  }

  x(at) {
    return 7 + (at - this.view.from) / (this.view.to - this.view.from) * (this.right - 14);
  }

  at(x) {
    return this.view.from + Math.min(1, Math.max(0, (x - 7) / (this.right - 14))) * (this.view.to - this.view.from);
  }

  top(panel) {
    return STRIP + GAP + panel * (this.panel + GAP);
  }

  layer(draw) {
    const canvas = document.createElement('canvas');
    canvas.width = this.canvas.width;
    canvas.height = this.canvas.height;
    const ctx = canvas.getContext('2d');
    ctx.scale(this.ratio, this.ratio);
    ctx.beginPath();
    ctx.rect(0, 0, this.right, this.height);
    ctx.clip();
    ctx.font = this.theme.small;
    draw(ctx);
    return canvas;
  }

  drawBase(ctx) {
    const { theme, right, view } = this, bottom = this.height - AXIS;
    for (const [from, to] of this.outages) {
      const left = this.x(from * 1e3);
      ctx.fillStyle = theme.rejected;
      ctx.globalAlpha = .09;
      ctx.fillRect(left, 0, this.x(to * 1e3) - left, bottom);
      ctx.globalAlpha = 1;
      ctx.fillText('Redis cannot be reached', left + 6, STRIP + GAP - 6);
    }
    this.drawEdges(ctx, bottom);
    line(ctx, 0, this.shared.middle, right, this.shared.middle, theme['edge-strong']);
    this.panels.forEach(({ lines, high, label }, panel) => {
      const top = this.top(panel), base = top + this.panel;
      line(ctx, 0, base, right, base, theme['edge-strong']);
      lines.forEach((limit, i) => {
        const y = base - limit / high * this.panel;
        ctx.setLineDash(i ? [2, 4] : [5, 3]);
        line(ctx, 0, y, right, y, theme.rejected, 1.3);
        ctx.setLineDash([]);
      });
      ctx.fillStyle = theme.soft;
      ctx.textAlign = 'left';
      ctx.fillText(right < 400 ? label.split(/[:,]/)[0] : label, 2, top - 6);
    });
    const seconds = nice((view.to - view.from) / 1e6 / Math.max(2, right / 90));
    ctx.fillStyle = theme.soft;
    for (let second = Math.ceil(view.from / 1e6 / seconds) * seconds; second * 1e6 <= view.to + 1; second += seconds) {
      const x = this.x(second * 1e6), text = second ? `${number(second)} s` : '0';
      ctx.textAlign = x < 16 ? 'left' : x > right - 20 ? 'right' : 'center';
      ctx.fillText(text, x < 16 ? 2 : x > right - 20 ? right : x, this.height - 5);
      line(ctx, x, bottom, x, bottom + 4, theme['edge-strong']);
    }
  }

  /** The ends of windows, as far as the samples show them. */
  drawEdges(ctx, bottom) {
    const ends = new Set();
    this.lane.limits.forEach(({ strategy }, i) => {
      if (!WINDOWS.includes(strategy)) return;
      for (const { first, data } of this.lane.series[i]) for (let s = 0; s + 1 < first.length; s++) if (first[s + 1] - first[s] > 5) ends.add(data[first[s] + 5]);
    });
    if (ends.size < 18) for (const end of ends) line(ctx, this.x(end), 0, this.x(end), bottom, this.theme.edge);
  }

  /** Requests that are still to come are ticks. */
  drawFuture(ctx) {
    const { rows } = this.lane, step = Math.max(1, Math.ceil(rows.length / ROW / 3000)) * ROW;
    ctx.globalAlpha = .45;
    ctx.fillStyle = this.theme.soft;
    for (let at = 0; at < rows.length; at += step) ctx.fillRect(this.x(rows[at]) - .6, this.shared.middle - 4, 1.2, 8);
  }

  drawPast(ctx) {
    this.heights = this.shared.unit ? drawBars(ctx, this) : drawMarks(ctx, this);
    this.panels.forEach(({ draw, high }, panel) => draw(ctx, this.top(panel), this.panel / high));
  }

  drawSeries(ctx, limit, { client, at, first, data }, base, scale, many) {
    const colour = colourOf(this.theme, client), tokens = limit.strategy === 'token_bucket', estimate = limit.strategy === 'sliding_window';
    const y = units => base - Math.max(0, tokens ? limit.limit - units : units) * scale;
    ctx.beginPath();
    let last = null;
    for (let i = 0; i < at.length; i++) {
      const values = data.subarray(first[i], first[i + 1]), x = this.x(at[i]);
      if (last && !estimate) {
        // A window that ended between two samples begins at nothing.
        if (limit.strategy.endsWith('window') && last.length > 5 && last[5] <= at[i]) {
          ctx.lineTo(this.x(last[5]), y(last[4]));
          ctx.lineTo(this.x(last[5]), y(0));
        }
        ctx.lineTo(x, y(level(limit, last, at[i])));
      } else if (!last) { ctx.moveTo(-9, y(0)); ctx.lineTo(x, y(0)); }
      // An estimate falls evenly, and rises at once.
      else if (values[4] > last[4]) ctx.lineTo(x, y(level(limit, last, at[i])));
      ctx.lineTo(x, y(level(limit, values, at[i])));
      last = values;
    }
    if (!last) return;
    ctx.lineTo(this.right + 9, y(level(limit, last, at.at(-1))));
    ctx.lineWidth = 1.6;
    ctx.lineJoin = 'round';
    ctx.strokeStyle = colour;
    ctx.stroke();
    // The bars of its slots stand below an estimate.
    if (estimate) return;
    ctx.lineTo(this.right + 9, base);
    ctx.lineTo(-9, base);
    ctx.globalAlpha = many > 1 ? .07 : .16;
    ctx.fillStyle = colour;
    ctx.fill();
    ctx.globalAlpha = 1;
  }

  /** Draws the lane at `now`, whose last request is `index`. Returns how many marks that took, besides the layers. */
  frame(now, index) {
    const { ctx, theme, lane, ratio, width, height, side } = this;
    if (!this.past) this.layout(theme);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    const x = this.x(now), bottom = height - AXIS, seen = Math.min(this.past.width, Math.max(0, Math.round(x * ratio)));
    let drawn = 3 + this.drawBehind(now);
    ctx.drawImage(this.base, 0, 0, width, height);
    if (seen > 0) ctx.drawImage(this.past, 0, 0, seen, this.past.height, 0, 0, seen / ratio, height);
    const rest = this.future.width - seen;
    if (rest > 0) ctx.drawImage(this.future, seen, 0, rest, this.future.height, seen / ratio, 0, rest / ratio, height);
    line(ctx, x, 3, x, bottom, theme.ink);
    ctx.beginPath();
    ctx.arc(x, 4, 4, 0, 7);
    ctx.fillStyle = theme.ink;
    ctx.fill();
    if (index >= 0 && this.heights) drawn += this.drawCurrent(index);
    const box = { x: width - side, w: side, y: 8, h: bottom - 6 };
    if (lane.leases.length) {
      box.h -= 52;
      drawn += leases(ctx, theme, { ...box, y: box.h + 18, h: 40 }, lane.leases[Math.max(0, before(lane.leasesAt, now))].slice(1));
    }
    lane.limits.forEach((limit, i) => {
      const all = this.seen(i, index), part = side / all.length, gap = all.length > 1 ? 5 : 0;
      const rows = lane.limits.length > 1 ? { y: this.top(i) - 6, h: this.panel + 6 } : {};
      all.forEach((series, k) => { drawn += figure(ctx, theme, { ...box, ...rows, x: box.x + k * part + gap, w: part - 2 * gap }, lane, limit, series, now, index, this.away(now)); });
      drawn += this.drawAhead(limit, all, now, i);
    });
    if (lane.service.length) {
      const values = lane.service[Math.max(0, before(lane.serviceAt, now))];
      drawn += service(ctx, theme, box, this.settings.service?.workers ?? 0, values);
    }
    return drawn;
  }

  /** Whether the store cannot be reached. */
  away(now) {
    return this.outages.some(([from, to]) => now >= from * 1e3 && now < to * 1e3);
  }

  /** The series that the figure shows: all if they are few, or that of the last request. */
  seen(i, index) {
    const all = this.lane.series[i], most = this.side < 100 ? 1 : 4;
    if (all.length <= most) return all;
    const at = Math.max(0, index) * ROW, { rows } = this.lane, own = all.filter(({ client }) => client < 0 || client === rows[at + COLUMN.client]);
    return own.length && own.length <= most ? own : [own.find(({ instance }) => instance === rows[at + COLUMN.instance]) ?? own[0] ?? all[0]];
  }

  /** What lies behind the marks: the period that a log or a sliding window looks back on. */
  drawBehind(now) {
    const { ctx, theme, lane } = this, [limit] = lane.limits;
    if (lane.limits.length !== 1 || !['sliding_log', 'sliding_window'].includes(limit.strategy)) return 0;
    const from = Math.max(0, this.x(now - limit.period)), to = Math.min(this.right, this.x(now)), bottom = this.height - AXIS;
    ctx.fillStyle = theme.c0;
    ctx.globalAlpha = .07;
    ctx.fillRect(from, 0, to - from, bottom);
    ctx.globalAlpha = 1;
    line(ctx, from, 0, from, bottom, theme.c0);
    return 2 + (limit.strategy === 'sliding_log' ? 0 : this.drawSlots(limit, now, from));
  }

  /** The slots of a sliding window as bars. The part that the period has left no longer counts, and fades. */
  drawSlots(limit, now, from) {
    const { ctx, theme, lane } = this, series = lane.series[0].length === 1 && lane.series[0][0], values = series && sample(series, now);
    if (!values || values.length < 7) return 0;
    const base = this.top(0) + this.panel, scale = this.panel / this.panels[0].high, slots = values.length - 7, wide = limit.period / Math.max(1, slots);
    ctx.fillStyle = colourOf(theme, series.client);
    for (let slot = 0; slot <= slots; slot++) {
      const end = values[5] - slot * wide, left = Math.max(0, this.x(Math.max(0, end - wide))), right = Math.min(this.right, this.x(Math.min(now, end))), high = values[6 + slot] * scale;
      if (right <= left || end <= 0) continue;
      const cut = Math.min(right, Math.max(left, from));
      ctx.globalAlpha = .13;
      ctx.fillRect(left, base - high, cut - left, high);
      ctx.globalAlpha = slot ? .36 : .75;
      ctx.fillRect(cut + .5, base - high, right - cut - 1, high);
    }
    ctx.globalAlpha = 1;
    return 2 * slots + 2;
  }

  /** What GCRA owes, as time ahead of now. */
  drawAhead(limit, all, now, i) {
    const values = limit.strategy === 'gcra' && all.length === 1 && sample(all[0], now), { ctx } = this;
    if (!values || values.length < 6 || values[5] <= now) return 0;
    const y = this.top(i) + this.panel - 8, from = this.x(now), to = Math.min(this.right, this.x(values[5]));
    ctx.fillStyle = colourOf(this.theme, all[0].client);
    ctx.fillRect(from, y, to - from, 4);
    ctx.beginPath();
    shape(ctx, 3, to, y + 2, 5);
    ctx.fill();
    return 2;
  }

  drawCurrent(index) {
    const { ctx, theme, lane: { rows }, shared: { radius } } = this, at = index * ROW, x = this.x(rows[at]), y = this.heights[index];
    ctx.beginPath();
    ctx.arc(x, y, radius + 4, 0, 7);
    ctx.fillStyle = theme.surface;
    ctx.fill();
    ctx.lineWidth = 1.5;
    ctx.strokeStyle = theme.ink;
    ctx.stroke();
    mark(ctx, theme, rows[at + COLUMN.client], rows[at + COLUMN.outcome], x, y, radius + .5, rows[at + COLUMN.mode] === 1);
    return 2;
  }
}

function nice(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].find(step => step * power >= least) * power;
}
