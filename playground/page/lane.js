// One lane: its time line, its figures, the header lines of a request.

import { Chart } from './draw/chart.js';
import { COLUMN, OUTCOMES, ROW, STRATEGIES, before, make, number, time, write } from './draw/marks.js';
import { sample, words } from './draw/state.js';

/** How far a finger moves before it drags, in pixels. */
const SIDEWAYS = 6;

export class Lane {
  constructor(player, place) {
    Object.assign(this, { player, place });
    this.title = make('h3');
    this.what = make('p', { className: 'what' });
    this.admitted = make('b');
    this.rejected = make('b');
    this.most = make('div', { className: 'mosts' });
    this.canvas = make('canvas', { role: 'img' });
    this.chart = new Chart(this.canvas);
    this.summary = make('p', { className: 'unseen', ariaLive: 'polite' });
    this.table = make('tbody');
    this.request = make('p', { className: 'request' });
    this.response = make('pre', { tabIndex: 0, ariaLabel: 'Response' });
    this.details = make('details', { open: player.open, ontoggle: () => this.settle(player.now, player.index) },
      make('summary', {}, 'Figures and response'),
      make('div', { className: 'more' }, make('div', {}, this.request, this.response),
        make('table', {}, make('caption', {}, 'Of the whole scene'), this.table)));
    this.element = make('article', { className: 'lane' },
      make('header', {}, make('div', {}, this.title, this.what),
        make('p', { className: 'count' }, this.admitted, ' admitted'), make('p', { className: 'count no' }, this.rejected, ' rejected'), this.most),
      make('div', { className: 'plot' }, this.canvas), this.summary, this.details);
    this.listen();
  }

  /** A point of the time line can be pressed, and dragged. A finger may be about to scroll the page: it has to move sideways, or to tap. */
  listen() {
    const { canvas, player } = this, move = event => {
      const x = event.clientX - canvas.getBoundingClientRect().left;
      if (this.chart.view && x <= this.chart.right + 8) player.seek(this.chart.at(x));
    };
    // Where a finger is down that has not moved sideways yet.
    let down = null;
    canvas.addEventListener('pointerdown', event => {
      canvas.setPointerCapture(event.pointerId);
      if (event.pointerType === 'touch') down = event; else move(event);
    });
    canvas.addEventListener('pointermove', event => {
      if (!canvas.hasPointerCapture(event.pointerId)) return;
      if (down && Math.abs(event.clientX - down.clientX) >= SIDEWAYS) down = null;
      if (!down) move(event);
    });
    canvas.addEventListener('pointerup', event => {
      if (down && Math.abs(event.clientY - down.clientY) < SIDEWAYS) move(event);
      down = null;
    });
    canvas.addEventListener('pointercancel', () => { down = null; });
  }

  width() {
    return this.canvas.parentElement.clientWidth;
  }

  /** Shows what was computed. `kept` is the most that a lane keeps of a client, if that differs much. */
  show(lane, settings, kept) {
    Object.assign(this, { lane, settings, index: -2 });
    write(this.title, lane.name);
    const quota = ({ policy }) => `${STRATEGIES[policy.strategy] === lane.name ? '' : STRATEGIES[policy.strategy]} ${policy.quota ?? policy.limit ?? ''}`.trim();
    write(this.what, [...(settings.limits ?? []).map(quota), settings.service ? `${settings.service.workers} workers` : '', settings.instances > 1 ? `${settings.instances} instances` : '', lane.note]
      .filter(text => text).join(' · '));
    this.most.replaceChildren(...lane.limits.map(limit => meter(limit, lane.limits.length > 1)), ...(kept ? [keeping(bytesOf(lane), kept)] : []));
    this.table.replaceChildren(...figures(lane).map(([name, ...values]) => make('tr', {}, make('th', { scope: 'row' }, name), make('td', {}, ...values))));
  }

  layout(result, settings, shared, view, theme) {
    this.chart.show(result, this.lane, settings, shared, view);
    this.chart.layout(theme);
  }

  /** Draws an instant, and returns how many marks that took. */
  draw(now, index) {
    index = this.own(now, index);
    if (index !== this.index) {
      this.index = index;
      const admitted = this.lane.admitted[index + 1];
      write(this.admitted, number(admitted));
      write(this.rejected, number(index + 1 - admitted));
      if (this.player.playing && this.details.open) this.explain(index);
    }
    return this.chart.frame(now, index);
  }

  /** The requests of a herd differ by lane: then it is the last one at that instant. */
  own(now, index) {
    return this.lane.rows === this.player.rows ? index : this.player.index < 0 ? -1 : this.sameRows() ? index : before(this.lane.rows, now, ROW);
  }

  sameRows() {
    return this.lane.rows.length === this.player.rows.length && !this.player.shown.streams.some(({ kind }) => kind === 'herd');
  }

  /** Says in words what is drawn, when it stands. */
  settle(now, index) {
    if (!this.lane || this.player.playing) return;
    index = this.own(now, index);
    const admitted = this.lane.admitted[index + 1], states = this.lane.limits.map((limit, i) => {
      const [series] = this.lane.series[i];
      const [value, what] = series ? words(limit, sample(series, now), now) : ['', ''];
      return `${this.lane.limits.length > 1 ? `${limit.name}: ` : ''}${value} ${what}${this.chart.away(now) ? ', in Redis, out of reach' : ''}`;
    });
    const text = `${this.lane.name}, at ${time(Math.round(now))}: ${number(admitted)} admitted, ${number(index + 1 - admitted)} rejected. ${states.join('. ')}`;
    write(this.summary, text);
    this.canvas.setAttribute('aria-label', `Time line. ${text}`);
    if (this.details.open) this.explain(index);
  }

  /** Shows the response to a request, as the engine has written it. One question at a time. */
  async explain(index) {
    this.wanted = index;
    if (this.asking) return;
    this.asking = true;
    while (this.wanted !== this.explained || this.of !== this.lane) {
      const request = this.wanted, lane = this.lane;
      write(this.request, this.describe(request));
      const answer = request < 0 ? null : await this.player.ask('explain', { scene: this.player.shown, lane: this.place, request });
      Object.assign(this, { explained: request, of: lane });
      if (answer?.error) write(this.response, answer.error);
      else write(this.response, answer ? [`HTTP/1.1 ${answer.status}`, ...answer.headers.map(header => header.join(': ')), ...(answer.body ? ['', answer.body.trimEnd()] : [])].join('\n') : '');
      if (this.player.playing) await new Promise(done => setTimeout(done, 250));
    }
    this.asking = false;
  }

  describe(index) {
    if (index < 0) return 'Before the first request';
    const { rows } = this.lane, value = name => rows[index * ROW + COLUMN[name]];
    const who = this.player.result.clients[value('client')], outcome = OUTCOMES[value('outcome')];
    const told = value('outcome') < 2
      ? `${value('wait') > 0 ? ` for ${time(value('wait'))}` : ''}${value('decisive') >= 0 ? `, ${number(value('remaining'))} left` : ''}`
      : value('retry') > 0 ? `, can succeed in ${time(value('retry'))}` : '';
    return `Request ${number(index + 1)} of ${number(rows.length / ROW)}: ${who} at ${time(value('at'))}${value('cost') > 1 ? `, costs ${number(value('cost'))}` : ''}, ${outcome}${told}${value('mode') === 1 ? ', without Redis' : value('mode') === 2 ? ', from a lease' : ''}`;
  }
}

/** The most in any window of the period, beside the limit and the bound. */
function meter(limit, named) {
  const end = Math.max(limit.most, limit.bound ?? 0, limit.units || limit.limit) * 1.05 || 1, at = value => `${Math.min(100, value / end * 100)}%`;
  const units = limit.strategy === 'in_flight' ? limit.limit : limit.units, over = limit.most > Math.max(units, limit.limit);
  const bar = make('i', { className: over ? 'bar over' : 'bar' }), edge = make('i', { className: 'edge' }), bound = make('i', { className: 'bound' });
  bar.style.width = at(limit.most);
  edge.style.left = at(units);
  bound.style.left = at(limit.bound ?? 0);
  bound.hidden = limit.bound === null || limit.bound === units;
  const where = limit.strategy === 'in_flight' ? 'most at once' : `most in any ${time(limit.period)}`;
  return make('div', { className: 'most', title: `The limit is ${number(units)}${limit.bound === null ? '' : `, and the most that the algorithm promises ${number(limit.bound)}`}.` },
    make('p', {}, named ? `${limit.name}: ${where} ` : `${where} `, make('b', { className: over ? 'over' : '' }, number(limit.most)), ` of ${number(units)}`),
    make('div', { className: 'meter', ariaHidden: 'true' }, bar, edge, bound));
}

/** The bytes of a client's states in memory. */
export const bytesOf = ({ memory }) => memory.reduce((sum, [keys, bytes]) => sum + (keys ? bytes / keys : 0), 0);

function keeping(bytes, most) {
  const bar = make('i', { className: 'bar' });
  bar.style.width = `${bytes / most * 96}%`;
  return make('div', { className: 'most' }, make('p', {}, 'keeps of each client ', make('b', {}, number(bytes)), ' bytes'), make('div', { className: 'meter', ariaHidden: 'true' }, bar));
}

/** The figures of a lane, as rows of a table. */
function figures({ counts, wait, latency, wrong, limits, memory, redis_bytes: redis }) {
  const pair = values => `${time(values[0])}, ${time(values[1])}`, rows = [
    ['Requests', number(counts.requests)], ['Admitted', number(counts.admitted)],
    counts.waited && ['of these after a wait', number(counts.waited)], counts.degraded && ['of these without Redis', number(counts.degraded)],
    ['Rejected by a limit', number(counts.limited)], counts.store_failed && ['Rejected, as Redis failed', number(counts.store_failed)],
    counts.shed && ['Shed', number(counts.shed)], ['Wait, median and 95 %', pair(wait)], latency[1] > 0 && ['Latency, median and 95 %', pair(latency)],
    wrong && ['Beside an exact log', `${number(wrong[0])} wrongly admitted, ${number(wrong[1])} wrongly rejected`],
  ];
  limits.forEach((limit, i) => {
    const name = limits.length > 1 ? `${limit.name}: ` : '', units = limit.strategy === 'in_flight' ? limit.limit : limit.units;
    rows.push([`${name}${limit.strategy === 'in_flight' ? 'Most at once' : `Most in any ${time(limit.period)}`}`, `${number(limit.most)}, limit ${number(units)}${limit.bound === null ? '' : `, bound ${number(limit.bound)}`}`]);
    rows.push([`${name}State in memory`, `${number(memory[i][1])} bytes for ${number(memory[i][0])} ${memory[i][0] === 1 ? 'key' : 'keys'}`], [`${name}State in Redis`, `at most ${number(redis[i])} bytes`]);
  });
  return rows.filter(Boolean);
}
