// The time line of a lane: marks of the requests, and below them the state. What does not change is drawn once, on layers.

import { COLUMN, ROW, before, colourOf, mark, number, shape } from './marks.js';
import { figure, level, sample, service } from './state.js';

const STRIP = 84, AXIS = 22, BIN = 4;

export class Chart {
  constructor(canvas) {
    this.canvas = canvas;
    this.ctx = canvas.getContext('2d');
  }

  /** Takes what is to be drawn. `shared` has what all lanes of a scene have in common. */
  show(scene, lane, settings, shared) {
    Object.assign(this, { scene, lane, settings, shared, past: null });
    this.outages = settings.outages ?? [];
    lane.instances = settings.instances ?? 1;
    lane.workers = settings.service?.workers ?? 0;
  }

  /** Lays out and draws the layers anew. */
  layout(theme) {
    this.theme = theme;
    const { lane, canvas } = this, width = canvas.parentElement.clientWidth, ratio = Math.min(2, devicePixelRatio || 1);
    const panels = lane.limits.length + (lane.service.length ? 1 : 0), side = width < 560 ? 84 : 150;
    this.panel = panels > 1 ? 96 : width < 560 ? 84 : 96;
    Object.assign(this, { width, ratio, side, right: width - side - (width < 560 ? 12 : 28), height: STRIP + panels * (this.panel + 8) + AXIS });
    canvas.style.height = `${this.height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(this.height * ratio);
    this.base = this.layer(ctx => this.drawBase(ctx));
    this.past = this.layer(ctx => this.drawPast(ctx));
  }

  /** Frees the layers, while nobody sees them. */
  release() {
    this.base = this.past = null;
  }

  x(at) {
    return 7 + at / this.scene.duration * (this.right - 14);
  }

  at(x) {
    return Math.min(1, Math.max(0, (x - 7) / (this.right - 14))) * this.scene.duration;
  }

  top(panel) {
    return STRIP + 8 + panel * (this.panel + 8);
  }

  layer(draw) {
    const canvas = document.createElement('canvas');
    canvas.width = this.canvas.width;
    canvas.height = this.canvas.height;
    const ctx = canvas.getContext('2d');
    ctx.scale(this.ratio, this.ratio);
    draw(ctx);
    return canvas;
  }

  drawBase(ctx) {
    const { theme, lane, right, scene } = this, middle = STRIP / 2, bottom = this.height - AXIS;
    ctx.font = theme.small;
    for (const [from, to] of this.outages) {
      const left = this.x(from * 1e3), wide = this.x(to * 1e3) - left;
      ctx.fillStyle = theme.rejected;
      ctx.globalAlpha = .08;
      ctx.fillRect(left, 0, wide, bottom);
      ctx.globalAlpha = 1;
      ctx.fillText('no Redis', left + 6, 11);
    }
    ctx.strokeStyle = theme.edge;
    ctx.lineWidth = 1;
    this.drawEdges(ctx, bottom);
    line(ctx, 0, middle, right, middle, theme['edge-strong']);
    // Requests that are still to come are ticks.
    const step = Math.max(1, Math.ceil(lane.admitted.length / 3000));
    ctx.globalAlpha = .35;
    ctx.fillStyle = theme.soft;
    for (let i = 0; i < lane.rows.length / ROW; i += step) ctx.fillRect(this.x(lane.rows[i * ROW]) - .5, middle - 3, 1, 6);
    ctx.globalAlpha = 1;
    this.panels().forEach(({ limit, high, label }, panel) => {
      const top = this.top(panel), base = top + this.panel;
      line(ctx, 0, base, right, base, theme['edge-strong']);
      if (limit !== undefined) {
        const y = base - limit / high * this.panel;
        ctx.setLineDash([4, 3]);
        line(ctx, 0, y, right, y, theme.rejected);
        ctx.setLineDash([]);
      }
      ctx.fillStyle = theme.soft;
      ctx.textAlign = 'left';
      ctx.fillText(label, 2, top + 9);
    });
    const seconds = nice(scene.duration / 1e6 / Math.max(2, right / 90));
    ctx.fillStyle = theme.soft;
    for (let second = 0; second * 1e6 <= scene.duration; second += seconds) {
      const x = this.x(second * 1e6);
      ctx.textAlign = second === 0 ? 'left' : x > right - 20 ? 'right' : 'center';
      ctx.fillText(second === 0 ? '0' : `${number(second)} s`, second === 0 ? 2 : x > right - 20 ? right : x, this.height - 5);
      line(ctx, x, bottom, x, bottom + 4, theme['edge-strong']);
    }
  }

  /** The ends of fixed windows, as far as the samples show them. */
  drawEdges(ctx, bottom) {
    const ends = new Set();
    this.lane.limits.forEach(({ strategy, period }, i) => {
      if (!['fixed_window', 'calendar_window', 'sliding_window'].includes(strategy) || period / this.scene.duration * this.right < 12) return;
      for (const { first, data } of this.lane.series[i]) {
        for (let s = 0; s + 1 < first.length; s++) {
          if (first[s + 1] - first[s] < 6) continue;
          const end = data[first[s] + 5];
          ends.add(end);
          if (this.lane.limits.length === 1) for (let past = end - period; past > 0; past -= period) ends.add(past);
        }
      }
    });
    if (ends.size < 60) for (const end of ends) if (end > 0 && end <= this.scene.duration) line(ctx, this.x(end), 0, this.x(end), bottom, this.theme.edge);
  }

  /** What the panels below the marks show: the most that fits, where the limit is, a label. */
  panels() {
    const { lane } = this;
    const labels = { token_bucket: 'tokens', gcra: 'time owed', leaky_bucket: 'queue', sliding_window: 'estimate', in_flight: 'in flight' };
    const panels = lane.limits.map((limit, i) => ({
      high: limit.strategy === 'token_bucket' ? limit.limit * 1.02 : Math.max(limit.limit, this.shared.highest(lane, i)) * 1.15,
      limit: limit.strategy === 'token_bucket' ? undefined : limit.limit,
      label: `${lane.limits.length > 1 ? `${limit.name}: ` : ''}${labels[limit.strategy] ?? 'units that count'}`,
    }));
    if (lane.service.length) {
      const high = Math.max(20, ...lane.service.map(([, busy, waiting]) => busy + waiting)) * 1.15;
      panels.push({ high, label: `in flight and waiting, up to ${number(high / 1.15)}` });
    }
    return panels;
  }

  drawPast(ctx) {
    this.drawMarks(ctx);
    const panels = this.panels();
    this.lane.limits.forEach((limit, i) => {
      for (const series of this.lane.series[i]) this.drawSeries(ctx, limit, series, this.top(i) + this.panel, this.panel / panels[i].high, this.lane.series[i].length);
    });
    if (this.lane.service.length) this.drawService(ctx, panels.length - 1, this.panel / panels.at(-1).high);
  }

  /** One mark for each request, in stacks; where they would not fit, bars. Admitted ones are above the line, rejected ones below. */
  drawMarks(ctx) {
    const { theme, lane, shared } = this, { rows } = lane, middle = STRIP / 2, count = rows.length / ROW;
    const r = shared.dense ? 0 : shared.radius;
    this.heights = new Float32Array(count);
    if (shared.dense) return this.drawBars(ctx);
    const ends = [[], []];
    for (let i = 0; i < count; i++) {
      const at = i * ROW, x = this.x(rows[at]), outcome = rows[at + COLUMN.outcome], stack = ends[outcome > 1 ? 1 : 0];
      let place = 0;
      while (stack[place] > x - 2 * r - .6) place++;
      stack[place] = x;
      const y = this.heights[i] = middle + (outcome > 1 ? 1 : -1) * (r + 4 + place * (2 * r + 1.2));
      if (rows[at + COLUMN.wait] > 0) {
        line(ctx, x, y, this.x(rows[at] + rows[at + COLUMN.wait]), y, colourOf(theme, rows[at + COLUMN.client]));
        line(ctx, this.x(rows[at] + rows[at + COLUMN.wait]), y - 3, this.x(rows[at] + rows[at + COLUMN.wait]), y + 3, colourOf(theme, rows[at + COLUMN.client]));
      }
      mark(ctx, theme, rows[at + COLUMN.client], outcome, x, y, r, rows[at + COLUMN.mode] === 1);
    }
  }

  drawBars(ctx) {
    const { theme, lane, shared } = this, middle = STRIP / 2, unit = (middle - 6) / shared.dense;
    const bins = new Map();
    for (let at = 0; at < lane.rows.length; at += ROW) {
      const bin = Math.floor(this.x(lane.rows[at]) / BIN), down = lane.rows[at + COLUMN.outcome] > 1;
      const key = (bin * 2 + down) * 16 + lane.rows[at + COLUMN.client];
      bins.set(key, (bins.get(key) ?? 0) + 1);
    }
    const heights = new Map();
    for (const [key, count] of [...bins].sort((a, b) => a[0] - b[0])) {
      const client = key % 16, place = (key - client) / 16, down = place % 2, x = (place - down) / 2 * BIN;
      const from = heights.get(place) ?? 2, high = count * unit, y = down ? middle + from : middle - from - high;
      heights.set(place, from + high);
      ctx.fillStyle = colourOf(theme, client);
      ctx.globalAlpha = down ? .3 : .9;
      ctx.fillRect(x, y, BIN - 1, high);
      ctx.globalAlpha = 1;
      if (down) { ctx.fillStyle = theme.rejected; ctx.fillRect(x, down ? y + high - 1.2 : y, BIN - 1, 1.2); }
    }
  }

  drawSeries(ctx, limit, { client, at, first, data }, base, scale, many) {
    const colour = colourOf(this.theme, client), tokens = limit.strategy === 'token_bucket';
    const y = units => base - Math.max(0, tokens ? limit.limit - units : units) * scale;
    const path = () => {
      ctx.beginPath();
      let before = null;
      for (let i = 0; i < at.length; i++) {
        const values = data.subarray(first[i], first[i + 1]), x = this.x(at[i]);
        if (before) {
          // A window that ended between two samples begins at nothing.
          if (before[5] > before[0] && before[5] < at[i] && (limit.strategy === 'fixed_window' || limit.strategy === 'calendar_window')) {
            ctx.lineTo(this.x(before[5]), y(level(limit, before, before[0])));
            ctx.lineTo(this.x(before[5]), y(0));
          }
          if (limit.strategy !== 'sliding_window') ctx.lineTo(x, y(level(limit, before, at[i])));
        } else ctx.moveTo(x, y(0));
        ctx.lineTo(x, y(level(limit, values, at[i])));
        before = values;
      }
    };
    path();
    ctx.lineTo(this.x(at.at(-1)), base);
    ctx.lineTo(this.x(at[0]), base);
    ctx.globalAlpha = many > 1 ? .07 : .16;
    ctx.fillStyle = colour;
    ctx.fill();
    ctx.globalAlpha = 1;
    path();
    ctx.lineWidth = 1.6;
    ctx.lineJoin = 'round';
    ctx.strokeStyle = colour;
    ctx.stroke();
  }

  drawService(ctx, panel, scale) {
    const base = this.top(panel) + this.panel, { service } = this.lane;
    const area = (value, colour, alpha) => {
      ctx.beginPath();
      ctx.moveTo(this.x(0), base);
      for (const values of service) ctx.lineTo(this.x(values[0]), base - value(values) * scale);
      ctx.lineTo(this.x(this.scene.duration), base);
      ctx.globalAlpha = alpha;
      ctx.fillStyle = colour;
      ctx.fill();
      ctx.globalAlpha = 1;
    };
    area(values => values[1] + values[2], this.theme.rejected, .35);
    area(values => values[1], this.theme.c0, .8);
    if (!service[0][3]) return;
    ctx.beginPath();
    for (const values of service) ctx.lineTo(this.x(values[0]), base - values[3] * scale);
    ctx.strokeStyle = this.theme.ink;
    ctx.lineWidth = 1.3;
    ctx.stroke();
  }

  /** Draws the lane at `now`, whose last request is `index`. Returns how many marks that took, besides the two layers. */
  frame(now, index) {
    const { ctx, theme, lane, ratio, width, height, right } = this;
    if (!this.past) this.layout(theme);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    let drawn = this.drawBehind(now);
    ctx.drawImage(this.base, 0, 0, width, height);
    const x = this.x(now), seen = Math.round(x * ratio);
    if (seen > 0) ctx.drawImage(this.past, 0, 0, seen, this.past.height, 0, 0, seen / ratio, height);
    line(ctx, x, 0, x, height - AXIS, theme.ink);
    if (index >= 0 && this.heights && !this.shared.dense) drawn += this.drawCurrent(index);
    const panels = this.panels();
    const boxes = lane.limits.length > 1 ? i => ({ y: this.top(i), h: this.panel }) : () => ({ y: 8, h: height - AXIS - 4 });
    lane.limits.forEach((limit, i) => {
      const all = this.seen(i, index), part = this.side / all.length;
      all.forEach((series, k) => {
        const gap = all.length > 1 ? 5 : 0;
        drawn += figure(ctx, theme, { x: width - this.side + k * part + gap, w: part - 2 * gap, ...boxes(i) }, lane, limit, series, now, index);
      });
      drawn += this.drawAhead(limit, all, now, i, panels[i]);
    });
    if (lane.service.length) {
      const values = lane.service[Math.max(0, before(lane.serviceAt ??= Float64Array.from(lane.service, value => value[0]), now))];
      drawn += service(ctx, theme, { x: width - this.side, w: this.side, y: 8, h: height - AXIS - 4 }, lane.workers, values);
    }
    return drawn;
  }

  /** The series that the figure shows: all if they are few, or that of the last request. */
  seen(i, index) {
    const all = this.lane.series[i], most = this.side < 100 ? 2 : 4;
    if (all.length <= most) return all;
    const at = Math.max(0, index) * ROW, { rows } = this.lane;
    const own = all.filter(({ client }) => client < 0 || client === rows[at + COLUMN.client]);
    return own.length && own.length <= most ? own : [own.find(({ instance }) => instance === rows[at + COLUMN.instance]) ?? own[0] ?? all[0]];
  }

  /** What lies behind the marks: the period that a log or a sliding window looks back on. */
  drawBehind(now) {
    const { ctx, theme, lane } = this, [limit] = lane.limits;
    if (lane.limits.length !== 1 || !['sliding_log', 'sliding_window'].includes(limit.strategy)) return 0;
    const from = this.x(Math.max(0, now - limit.period)), to = this.x(now);
    ctx.fillStyle = theme.c0;
    ctx.globalAlpha = .09;
    ctx.fillRect(from, 0, to - from, this.height - AXIS);
    ctx.globalAlpha = 1;
    if (limit.strategy === 'sliding_log') return 1;
    return 1 + this.drawSlots(limit, now, from);
  }

  /** The slots of a sliding window as bars. The part that the period has left no longer counts, and fades. */
  drawSlots(limit, now, from) {
    const { ctx, theme, lane } = this, series = lane.series[0][0], values = series && sample(series, now);
    if (!values || values.length < 7) return 0;
    const base = this.top(0) + this.panel, scale = this.panel / this.panels()[0].high, slots = values.length - 7, wide = limit.period / Math.max(1, slots);
    ctx.fillStyle = colourOf(theme, series.client);
    for (let slot = 0; slot <= slots; slot++) {
      const end = values[5] - slot * wide, left = this.x(Math.max(0, end - wide)), right = this.x(Math.min(now, end)), high = values[6 + slot] * scale;
      if (right <= left || end <= 0) continue;
      const cut = Math.min(right, Math.max(left, from));
      ctx.globalAlpha = .12;
      ctx.fillRect(left, base - high, cut - left, high);
      ctx.globalAlpha = .32;
      ctx.fillRect(cut, base - high, right - cut - .5, high);
    }
    ctx.globalAlpha = 1;
    return 2 * slots + 2;
  }

  /** What GCRA owes, as time ahead of now. */
  drawAhead(limit, all, now, i) {
    if (limit.strategy !== 'gcra' || all.length !== 1) return 0;
    const values = sample(all[0], now), { ctx } = this;
    if (!values || values.length < 6 || values[5] <= now) return 0;
    const y = this.top(i) + this.panel - 7, from = this.x(now), to = Math.min(this.right, this.x(values[5]));
    ctx.fillStyle = colourOf(this.theme, all[0].client);
    ctx.fillRect(from, y, to - from, 5);
    ctx.beginPath();
    shape(ctx, 3, to, y + 2.5, 5);
    ctx.fill();
    return 2;
  }

  drawCurrent(index) {
    const { ctx, theme, lane, shared } = this, at = index * ROW, x = this.x(lane.rows[at]), y = this.heights[index];
    ctx.beginPath();
    ctx.arc(x, y, shared.radius + 4, 0, 7);
    ctx.fillStyle = theme.surface;
    ctx.fill();
    ctx.lineWidth = 1.5;
    ctx.strokeStyle = theme.ink;
    ctx.stroke();
    mark(ctx, theme, lane.rows[at + COLUMN.client], lane.rows[at + COLUMN.outcome], x, y, shared.radius + .5, lane.rows[at + COLUMN.mode] === 1);
    return 2;
  }
}

/** What the lanes of a scene have in common: the size of marks, or the most in one bar if there are too many. */
export function sharing(result, width) {
  const room = STRIP / 2 - 6, right = width - (width < 560 ? 96 : 178), fits = r => {
    for (const { rows } of result.lanes) {
      const ends = [[], []];
      for (let at = 0; at < rows.length; at += ROW) {
        const x = 7 + rows[at] / result.duration * (right - 14), stack = ends[rows[at + COLUMN.outcome] > 1 ? 1 : 0];
        let place = 0;
        while (stack[place] > x - 2 * r - .6) place++;
        if ((place + 1) * (2 * r + 1.2) > room) return false;
        stack[place] = x;
      }
    }
    return true;
  };
  const radius = [5, 4, 3, 2.2].find(fits);
  let dense = 0;
  if (!radius) {
    for (const { rows } of result.lanes) {
      const bins = new Map();
      for (let at = 0; at < rows.length; at += ROW) {
        const key = Math.floor((7 + rows[at] / result.duration * (right - 14)) / BIN) * 2 + (rows[at + COLUMN.outcome] > 1);
        bins.set(key, (bins.get(key) ?? 0) + 1);
      }
      dense = Math.max(dense, ...bins.values());
    }
  }
  const known = new Map();
  const highest = (lane, i) => {
    if (!known.has(lane)) known.set(lane, []);
    return known.get(lane)[i] ??= Math.max(0, ...lane.series[i].flatMap(({ at, first, data }) =>
      Array.from(at, (now, k) => level(lane.limits[i], data.subarray(first[k], first[k + 1]), now))));
  };
  return { radius: radius ?? 0, dense, highest };
}

function nice(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].find(step => step * power >= least) * power;
}

function line(ctx, x1, y1, x2, y2, colour) {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.lineWidth = 1;
  ctx.strokeStyle = colour;
  ctx.stroke();
}
