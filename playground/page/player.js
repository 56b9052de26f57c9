// A scene that is played: its lanes on one clock, which runs, stands or is moved.

import { Lane, bytesOf } from './lane.js';
import { timeLine } from './draw/chart.js';
import { COLUMN, ROW, before, colours, line, make, mark, number, time, write } from './draw/marks.js';
import { sharing, viewOf } from './draw/strip.js';

const LENGTH = 14_000, SLOW = 4;
const BURSTS = new Map(Object.entries({ estimate: 25, memory: 30, buckets: 4, both: 4, instances: 200, outage: 8, tokens: 3, shed: 100 }));
export const still = matchMedia('(prefers-reduced-motion: reduce)');

const exceeds = ({ streams, lanes }) => streams.some(({ kind }) => kind === 'edge') || lanes.some(({ store, limits }) => store === 'share' || limits?.some(({ policy }) => policy.lease));

export class Player {
  /** `ask` asks the engine, and `changed` is called with a scene that was edited here. */
  constructor(ask, { open = false, changed = () => {} } = {}) {
    Object.assign(this, { ask, open, changed, now: 0, index: -1, playing: false, lanes: [], slow: false, drawn: 0 });
    const button = (text, label, click, kind = 'quiet') => make('button', { type: 'button', className: kind, ariaLabel: label, title: label, onclick: click }, text);
    this.playButton = button('Play', 'Play, or pause (space)', () => this.toggle(), 'main play');
    this.range = make('input', { type: 'range', min: 0, max: 1000, step: 1, value: 0, ariaLabel: 'Time of the scene', oninput: () => this.seek(this.view.from + this.range.value / 1000 * (this.view.to - this.view.from)) });
    this.clock = make('output', { className: 'clock' });
    this.slowButton = button('Slow', 'Play slowly', () => { this.slow = !this.slow; this.slowButton.setAttribute('aria-pressed', this.slow); });
    this.slowButton.setAttribute('aria-pressed', 'false');
    this.zoomIn = button('+', 'See less time', () => this.zoom(.5));
    this.zoomOut = button('−', 'See more time', () => this.zoom(2));
    this.oneButton = button('Send 1', 'Send a request now', () => this.send(1), '');
    this.as = make('select', { ariaLabel: 'Client that sends', hidden: true });
    this.burstButton = button('', 'Send many requests now', () => this.herd ? this.sendHerd() : this.send(this.burst), 'burst');
    this.cutButton = button('Cut Redis off', 'Cut Redis off from now on', () => this.cut(), '');
    this.resetButton = button('Undo', 'Undo what you have sent', () => this.load(this.original));
    this.resetButton.hidden = this.cutButton.hidden = true;
    this.problem = make('p', { className: 'problem', role: 'alert', hidden: true });
    this.leftOut = make('p', { className: 'small soft left-out' });
    this.legend = make('p', { className: 'legend' });
    this.place = make('div', { className: 'lanes' });
    const steps = make('span', { className: 'steps' },
      button('‹', 'To the request before (left arrow)', () => this.step(-1)), button('›', 'To the next request (right arrow)', () => this.step(1)));
    this.element = make('div', { className: 'player' },
      make('div', { className: 'transport', role: 'group', ariaLabel: 'Playing' }, this.playButton, steps, this.range, this.clock, this.slowButton, open ? make('span', { className: 'steps' }, this.zoomOut, this.zoomIn) : null,
        make('span', { className: 'send' }, this.as, this.cutButton, this.oneButton, this.burstButton, this.resetButton)),
      this.problem, this.legend, this.leftOut, this.place);
  }

  /** Keeps room for the lanes of a scene, so that what is below does not move when they come. */
  reserve(scene) {
    const { lanes } = scene, panels = lanes.reduce((sum, { limits, service }) => sum + (limits?.length ?? 0) + (service ? 2 : 0) + exceeds(scene), 0);
    this.place.style.minHeight = `${lanes.length * 262 + panels * 104}px`;
  }

  /** Shows a scene from its beginning. */
  load(scene) {
    this.original = scene;
    this.resetButton.hidden = true;
    return this.run(structuredClone(scene), true);
  }

  /** Computes a scene and shows it, or what is wrong with it if it is the last one that was asked for. Answers come in the order of the questions. */
  async run(scene, fresh = false) {
    this.scene = scene;
    const answer = await this.ask('run', scene);
    if (this.scene === scene) {
      this.problem.hidden = !answer.error;
      write(this.problem, (answer.error ?? '').replace(/ at line \d+ column \d+$/, ''));
      // What is drawn stays, and is what is edited next.
      if (answer.error) this.scene = this.shown;
    }
    if (answer.error) return;
    Object.assign(this, { shown: scene, result: answer });
    // Nothing is drawn before all lanes are laid out.
    this.theme = null;
    this.place.style.minHeight = '';
    this.burst = BURSTS.get(scene.id) ?? 10;
    this.herd = scene.streams.find(({ kind }) => kind === 'herd');
    write(this.burstButton, this.herd ? 'Send the herd' : `Send ${this.burst}`);
    this.cutButton.hidden = !scene.lanes.some(lane => lane.outages?.length);
    const as = Math.min(Math.max(0, this.as.selectedIndex), scene.clients.length - 1);
    this.as.replaceChildren(...scene.clients.map(({ name }, i) => make('option', { value: i }, `as ${name}`)));
    this.as.selectedIndex = as;
    this.as.hidden = !this.open || scene.clients.length < 2;
    while (this.lanes.length > answer.lanes.length) this.lanes.pop().element.remove();
    while (this.lanes.length < answer.lanes.length) {
      const lane = new Lane(this, this.lanes.length);
      this.lanes.push(lane);
      this.place.append(lane.element);
    }
    const kept = answer.lanes.map(bytesOf), most = Math.max(...kept);
    this.lanes.forEach((lane, i) => lane.show(answer.lanes[i], scene.lanes[i], (this.open || scene.id === 'memory') && most > 2 * Math.min(...kept) ? most : 0));
    this.rows = answer.lanes.reduce((rows, lane) => lane.rows.length > rows.length ? lane.rows : rows, answer.lanes[0].rows);
    if (fresh || !this.view) this.view = viewOf(answer);
    this.now = fresh ? still.matches ? this.view.to : this.beginning() : Math.min(Math.max(this.now, this.view.from), this.view.to);
    this.index = before(this.rows, this.now, ROW);
    this.layout();
    if (fresh || !this.playing) this.pause();
    this.element.dataset.runs = Number(this.element.dataset.runs ?? 0) + 1;
  }

  /** Shortly before the first request. */
  beginning() {
    return Math.max(this.view.from, (this.rows[0] ?? 0) - (this.view.to - this.view.from) * .06);
  }

  /** Lays everything out for the width and the colours that there are now. */
  layout() {
    if (!this.result || !this.place.clientWidth) return;
    const style = getComputedStyle(document.body).fontFamily;
    const found = colours(), clients = this.result.clients.length;
    this.theme = { ...found, all: clients > 1 ? found.ink : found.c0, small: `11.5px ${style}`, strong: `600 14px ${style}` };
    const shared = sharing(this.result, this.view, timeLine(this.lanes[0].width()), clients);
    // Where a limit may be exceeded, what was admitted in the last period is drawn, too.
    shared.recent = exceeds(this.shown);
    this.lanes.forEach((lane, i) => lane.layout(this.result, this.shown.lanes[i], shared, this.view, this.theme));
    this.writeLegend();
    write(this.leftOut, this.result.left_out ? `Left out: ${number(this.result.left_out)} (after the end, no line of a log, or of more clients than there are).` : '');
    this.draw();
  }

  writeLegend() {
    const entry = (client, outcome, text, plain) => {
      const ratio = devicePixelRatio || 1, canvas = make('canvas', { width: 14 * ratio, height: 14 * ratio, ariaHidden: 'true' }), ctx = canvas.getContext('2d');
      ctx.scale(ratio, ratio);
      if (outcome === 1) { line(ctx, 4, 7, 13, 7, this.theme.c0, 1.5); line(ctx, 13, 3, 13, 11, this.theme.c0, 1.5); }
      mark(ctx, this.theme, client, outcome, outcome === 1 ? 4 : 7, 7, outcome === 1 ? 3.5 : 4.5, plain);
      return make('span', {}, canvas, text);
    };
    const seen = new Set();
    for (const { rows } of this.result.lanes) for (let at = 0; at < rows.length; at += ROW) seen.add(rows[at + COLUMN.mode] === 1 && rows[at + COLUMN.outcome] < 2 ? 9 : rows[at + COLUMN.outcome]);
    const { clients } = this.result, texts = { 0: 'passed, above the line', 1: 'waits for its slot', 2: 'rejected, below it', 3: 'rejected, as Redis failed', 4: 'shed, below the line', 9: 'passed without Redis' };
    this.legend.replaceChildren(...(clients.length > 1 ? clients.map((name, i) => entry(i, 0, name)) : []),
      ...[0, 1, 9, 2, 3, 4].filter(kind => seen.has(kind)).map(kind => entry(clients.length > 1 && kind !== 4 ? -1 : 0, kind % 9, texts[kind], kind === 9)));
  }

  /** Shows more or less time around now. */
  zoom(by) {
    if (!this.result) return;
    const span = Math.min(this.result.duration, Math.max(1e5, (this.view.to - this.view.from) * by)), from = Math.min(Math.max(0, this.now - span / 2), this.result.duration - span);
    this.view = { from, to: from + span };
    this.layout();
  }

  toggle() {
    if (this.playing) this.pause(); else this.play();
  }

  play() {
    if (!this.result) return;
    if (this.now >= this.view.to) this.seek(this.beginning());
    this.playing = true;
    write(this.playButton, 'Pause');
    this.element.dispatchEvent(new CustomEvent('playing', { bubbles: true, detail: this }));
  }

  pause() {
    this.playing = false;
    write(this.playButton, 'Play');
    this.lanes.forEach(lane => lane.settle(this.now, this.index));
  }

  /** Moves on by the time that has passed. */
  advance(millis) {
    const now = this.now + millis / LENGTH / (this.slow ? SLOW : 1) * (this.view.to - this.view.from);
    this.now = Math.min(now, this.view.to);
    this.index = before(this.rows, this.now, ROW);
    this.draw();
    if (now >= this.view.to) this.pause();
  }

  /** Moves to an instant, or to a request. */
  seek(now, playing = false, index = before(this.rows ?? [], now, ROW)) {
    if (!this.result) return;
    this.now = now;
    this.index = index;
    if (!playing) this.pause();
    this.draw();
  }

  step(by) {
    if (!this.result) return;
    const count = this.rows.length / ROW, index = Math.max(-1, Math.min(count - 1, this.index + by));
    this.seek(index < 0 ? this.view.from : this.rows[index * ROW], false, index);
  }

  /** Draws all lanes as they are now. */
  draw() {
    if (!this.theme) return;
    this.range.value = Math.round((this.now - this.view.from) / (this.view.to - this.view.from) * 1000);
    this.range.setAttribute('aria-valuetext', time(Math.round(this.now)));
    write(this.clock, `${(this.now / 1e6).toFixed(1)} s`);
    this.drawn = 0;
    for (const lane of this.lanes) this.drawn += lane.draw(this.now, this.index);
  }

  /** Sends requests at this instant: the scene is computed anew, with them. */
  send(count) {
    if (!this.result) return;
    if (this.now >= this.view.to) this.now = this.beginning();
    const { streams, duration } = this.scene, seen = (this.view.to - this.view.from) / 1e3, client = this.open ? this.as.selectedIndex : this.scene.id === 'shed' ? 2 : 0, like = streams.find(stream => (stream.client ?? 0) === client) ?? {};
    const at = Math.ceil(this.now / 1e3) + 1, gap = count > 50 ? seen / 2000 : seen / 60;
    const instants = Array.from({ length: count }, (_, i) => Math.min(duration - 1, at + Math.round(i * gap)));
    this.edit(scene => {
      let own = scene.streams.find(({ kind, client: of = 0, from, to }) => kind === 'clicks' && of === client && from === undefined && to === undefined);
      if (!own) scene.streams.push(own = { kind: 'clicks', client, at: [], ...(like.takes ? { takes: like.takes } : {}), ...(like.uses ? { uses: like.uses } : {}) });
      own.at = [...own.at, ...instants].sort((a, b) => a - b);
    }, instants.at(-1) * 1e3);
  }

  /** Sends the herd once more. */
  sendHerd() {
    if (this.now >= this.view.to) this.now = this.beginning();
    const at = Math.min(this.scene.duration - 1, Math.ceil(this.now / 1e3) + 1);
    this.edit(scene => { scene.streams.find(({ kind }) => kind === 'herd').at.push(at); }, this.view.to);
  }

  cut() {
    const from = Math.floor(Math.min(this.now / 1e3, this.scene.duration * .75)), to = Math.floor(Math.min(this.scene.duration, from + this.scene.duration / 4));
    this.edit(scene => { for (const lane of scene.lanes) if (lane.outages?.length) lane.outages = [[from, to]]; }, to * 1e3);
  }

  async edit(change, until) {
    const scene = structuredClone(this.scene);
    change(scene);
    await this.run(scene);
    this.resetButton.hidden = this.open || !this.result;
    this.changed(scene);
    if (still.matches) this.seek(Math.min(until, this.view.to)); else this.play();
  }
}
