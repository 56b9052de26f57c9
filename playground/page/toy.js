// The toy: a form for a scene, and what becomes of it elsewhere.

import { STRATEGIES, make, write } from './draw/marks.js';
import { Output, fromAddress, toAddress } from './out.js';
import { Player } from './player.js';

/** How the text of a control becomes a value of a scene, and back. */
const KINDS = {
  text: [text => text, value => value ?? ''],
  number: [text => text.trim() === '' ? undefined : Number.isNaN(Number(text)) ? text : Number(text), value => String(value ?? '')],
  list: [text => text.split(/[\s,]+/).filter(Boolean).map(one => Number.isNaN(Number(one)) ? one : Number(one)), value => (value ?? []).join(', ')],
  pair: [text => text.trim() === '' ? undefined : text.split('-').map(Number), value => (value ?? []).join('-')],
  pairs: [text => text.split(',').filter(one => one.trim()).map(one => one.split('-').map(Number)), value => (value ?? []).map(pair => pair.join('-')).join(', ')],
  choice: [text => JSON.parse(text), value => JSON.stringify(value)],
};

const STREAMS = {
  constant: ['Constant', { rate: '5/s' }], poisson: ['Poisson', { rate: '5/s' }], burst: ['Burst', { at: [2000], count: 10, over: 0 }],
  edge: ['Edge attack', { period: 10000, count: 10, over: 400 }], herd: ['Herd that retries', { at: [1000], members: 30 }], clicks: ['Own clicks', { at: [1000] }],
  log: ['Access log', { text: '192.0.2.7 - - [01/Jan/2026:00:00:00 +0000] "GET /search HTTP/1.1" 200 512\n192.0.2.9 - - [01/Jan/2026:00:00:03 +0000] "GET /search HTTP/1.1" 200 512' }],
};
const STREAM_FIELDS = {
  rate: ['Rate', 'text'], at: ['At, in ms', 'list'], count: ['Requests', 'number'], over: ['Spread over, in ms', 'number'], period: ['Window, in ms', 'number'],
  members: ['Members', 'number'], attempts: ['Attempts of each', 'number'], text: ['Lines of an access log', 'area'], from: ['From, in ms', 'number'], to: ['To, in ms', 'number'],
  cost: ['Cost', 'number'], takes: ['Takes, in ms, such as 40-60', 'pair'], uses: ['Turns out to cost, such as 60-500', 'pair'],
};
/** What the toy begins with. */
export const FIRST = {
  title: 'The toy', seed: 7, duration: 30000, clients: [{ name: 'ada' }, { name: 'bob', cost: 2 }],
  streams: [{ kind: 'poisson', rate: '1/s' }, { kind: 'burst', client: 1, at: [3000, 14000], count: 6, over: 600 }, { kind: 'constant', client: 1, rate: '1/3s' }],
  lanes: ['token_bucket', 'sliding_window', 'leaky_bucket'].map(strategy => ({ name: STRATEGIES[strategy], headers: 'ietf', limits: [{ policy: { name: 'search', strategy, quota: '8/10s' } }] })),
};
/** As many as a scene may have clients. */
const NAMES = ['ada', 'bob', 'eve', 'joe', 'kim', 'lea', 'max', 'ned', 'oda', 'pia', 'roy', 'sue'];
const HEADERS = ['x-ratelimit', 'x-ratelimit-unix-time', 'ietf', 'ietf-draft-6', 'by-policy', 'none'];
const FAILURES = [undefined, 'local', 'open', 'closed', { open_for: '3s' }, { local: 2 }];

const read = (scene, path) => path.reduce((value, key) => value?.[key], scene);
function put(scene, path, value) {
  // Without this field of theirs they are no service and no shedding.
  if (value === undefined && ['service', 'shed'].includes(path.at(-2))) path = path.slice(0, -1);
  const last = path.at(-1);
  let parent = scene;
  for (const key of path.slice(0, -1)) parent = parent[key] ??= {};
  if (value === undefined) delete parent[last]; else parent[last] = value;
}

export class Toy {
  constructor(ask, section) {
    this.player = new Player(ask, { open: true, changed: scene => this.took(scene) });
    this.form = make('form', { className: 'form', ariaLabel: 'The scene', onsubmit: event => event.preventDefault() });
    this.output = new Output(ask);
    section.append(make('div', { className: 'bench' }, make('div', {}, this.player.element, this.output.element), this.form));
    const run = this.player.run.bind(this.player);
    // Whatever is shown, the form and the outputs show the same.
    this.player.run = async (scene, fresh) => {
      await run(scene, fresh);
      const { shown } = this.player;
      if (this.player.scene !== shown || this.filled === shown) return;
      this.fill(shown);
      // An edit before a mistake, whose answer had not come.
      if (shown !== scene) await this.took(shown);
    };
  }

  /** Takes a scene over, and goes there. */
  async open(scene) {
    this.player.played = true;
    await this.player.load(scene);
    await this.took(this.player.scene);
    document.getElementById('toy').scrollIntoView();
  }

  /** Restores the scene of the address, if it has one. */
  async restore() {
    if (location.hash === this.address) return true;
    const scene = await fromAddress(location.hash);
    if (scene === undefined) return false;
    this.address = location.hash;
    this.player.played = true;
    const { shown = FIRST, problem } = this.player;
    let message = 'This address has no scene that can be read.';
    try {
      if (scene) {
        await this.player.load(scene);
        message = problem.hidden ? '' : problem.textContent;
      }
    } catch (error) {
      message = `This address has a scene that cannot be shown: ${error.message}`;
    }
    document.getElementById('toy').scrollIntoView();
    if (!message) return true;
    if (this.player.shown !== shown) await this.player.load(shown);
    write(problem, message);
    problem.hidden = false;
    return true;
  }

  /** Puts the scene into the address. */
  async took(scene) {
    const address = await toAddress(scene);
    if (scene !== this.player.scene) return;
    history.replaceState(null, '', this.address = address);
    this.output.show(this.player.scene);
  }

  /** Changes the scene; a mistake is shown at the control that made it. */
  async change(change, control) {
    const scene = structuredClone(this.player.scene);
    change(scene);
    await this.player.run(scene);
    const wrong = this.player.shown !== scene && !this.player.problem.hidden;
    if (!wrong) return this.took(scene);
    const message = this.player.problem.textContent, note = control?.closest('label')?.querySelector('.wrong');
    if (!note || !control.isConnected) return;
    write(note, message);
    note.hidden = false;
    control.setAttribute('aria-invalid', 'true');
    this.player.problem.hidden = true;
  }

  /** Builds the form anew, and gives the focus back. */
  fill(scene) {
    this.filled = scene;
    const controls = () => [...this.form.querySelectorAll('button, input, select, textarea, summary')].filter(control => control.offsetParent);
    const focused = document.activeElement, at = controls().indexOf(focused), open = new Set([...this.form.querySelectorAll('details[open]')].map(details => details.dataset.path));
    const clients = scene.clients.length;
    this.form.replaceChildren(
      this.group('Traffic', ...scene.streams.map((stream, i) => this.stream(stream, i, scene)), this.adding('Add traffic', Object.entries(STREAMS).map(([kind, [name]]) => [kind, name]), kind => scene =>
        scene.streams.push({ kind, ...structuredClone(STREAMS[kind][1]) }))),
      this.group('Clients', ...scene.clients.map((client, i) => make('div', { className: 'row' },
        this.field('Name', ['clients', i, 'name'], 'text'), this.field('Cost', ['clients', i, 'cost'], 'number'),
        this.field('Class', ['clients', i, 'class'], 'choice', [[undefined, 'default'], ['critical', 'critical'], ['background', 'background']]),
        this.button('×', `Remove ${client.name}`, scene => { scene.clients.splice(i, 1); scene.streams = scene.streams.filter(stream => (stream.client ?? 0) !== i).map(stream => (stream.client ?? 0) > i ? { ...stream, client: stream.client - 1 } : stream); }, clients < 2))),
      this.button('Add a client', 'Add a client with traffic of its own', scene => {
        scene.clients.push({ name: NAMES.find(name => scene.clients.every(client => client.name !== name)) });
        scene.streams.push({ kind: 'poisson', rate: '1/s', client: clients });
      }, clients >= 12)),
      this.group('Lanes', ...scene.lanes.map((lane, i) => this.lane(lane, i, scene)),
        this.adding('Add a lane', Object.entries(STRATEGIES), strategy => scene => scene.lanes.push({ name: STRATEGIES[strategy], limits: [{ policy: policy('search', strategy, scene.lanes[0]?.limits?.[0]?.policy) }] }))),
      this.group('Scene', make('div', { className: 'row' }, this.field('Length, in ms', ['duration'], 'number'), this.field('Seed', ['seed'], 'number')), this.source(scene)));
    for (const details of this.form.querySelectorAll('details')) details.open = open.has(details.dataset.path);
    if (at >= 0) {
      const now = controls(), same = now.filter(({ dataset }) => dataset.path && dataset.path === focused.dataset.path);
      // What is gone, or cannot be told from others, leaves the focus to what is in its place.
      (same.length === 1 ? same[0] : now[Math.min(at, now.length - 1)]).focus();
    }
    this.output.show(scene);
  }

  group(title, ...children) {
    return make('fieldset', {}, make('legend', {}, title), ...children);
  }

  field(name, path, kind, choices) {
    const value = read(this.player.scene, path), [parse, format] = KINDS[kind === 'area' ? 'text' : kind];
    const control = kind === 'choice' ? make('select', {}, ...choices.map(([value, text]) => make('option', { value: JSON.stringify(value) ?? 'null' }, text)))
      : kind === 'area' ? make('textarea', { rows: 4, spellcheck: false }) : make('input', { type: 'text', inputMode: kind === 'text' ? 'text' : 'numeric', placeholder: path.at(-1) === 'cost' ? '1' : '', spellcheck: false, autocomplete: 'off' });
    control.value = format(value) ?? 'null';
    if (kind === 'choice' && control.selectedIndex < 0) {
      // A default that is written out is the first choice; anything else is a choice of its own.
      if (value !== null && typeof value === 'object') control.append(make('option', { value: format(value) }, format(value)));
      control.selectedIndex = value !== null && typeof value === 'object' ? control.length - 1 : 0;
    }
    control.dataset.path = path.join('.');
    control.addEventListener('change', () => this.change(scene => {
      put(scene, path, parse(control.value) ?? undefined);
      if (kind === 'area') fit(scene, control.value);
    }, control));
    return make('label', {}, make('span', {}, name), control, make('span', { className: 'wrong', role: 'alert', hidden: true }));
  }

  button(text, label, change, hidden = false) {
    const button = make('button', { type: 'button', className: 'quiet', ariaLabel: label, title: label, hidden, onclick: () => this.change(change) }, text);
    button.dataset.path = label;
    return button;
  }

  adding(text, choices, change) {
    const select = make('select', { ariaLabel: `${text} of this kind` }, ...choices.map(([value, name]) => make('option', { value }, name)));
    select.dataset.path = `${text} of this kind`;
    return make('div', { className: 'title' }, select, this.button('Add', text, scene => change(select.value)(scene)));
  }

  more(path, text, ...children) {
    const details = make('details', {}, make('summary', {}, text), make('div', { className: 'fields' }, ...children));
    details.dataset.path = path;
    return details;
  }

  stream(stream, i, scene) {
    const fields = Object.keys(STREAMS[stream.kind][1]), extra = ['from', 'to', 'cost', 'takes', 'uses', ...(stream.kind === 'herd' ? ['attempts'] : [])];
    const one = key => this.field(STREAM_FIELDS[key][0], ['streams', i, key], STREAM_FIELDS[key][1]);
    const kind = make('select', { ariaLabel: 'Kind of traffic' }, ...Object.entries(STREAMS).map(([kind, [name]]) => make('option', { value: kind }, name)));
    kind.value = stream.kind;
    kind.dataset.path = `streams.${i}.kind`;
    kind.addEventListener('change', () => this.change(scene => { scene.streams[i] = { kind: kind.value, client: stream.client ?? 0, ...structuredClone(STREAMS[kind.value][1]) }; }));
    const clients = scene.clients.map(({ name }, i) => [i || undefined, name]);
    return make('div', { className: 'item' },
      make('div', { className: 'title' }, kind, this.button('×', 'Remove this traffic', scene => scene.streams.splice(i, 1), scene.streams.length < 2)),
      make('div', { className: 'fields' }, scene.clients.length > 1 && stream.kind !== 'log' ? this.field('Client', ['streams', i, 'client'], 'choice', clients) : null, ...fields.map(one)),
      this.more(`more.streams.${i}`, 'More', ...extra.map(one)));
  }

  lane(lane, i, scene) {
    const path = ['lanes', i], limits = lane.limits ?? [];
    return make('div', { className: 'item' },
      make('div', { className: 'title' }, this.field('Name', [...path, 'name'], 'text'), this.button('×', `Remove ${lane.name}`, scene => scene.lanes.splice(i, 1), scene.lanes.length < 2)),
      ...limits.map((limit, k) => this.limit(limit, [...path, 'limits', k], limits.length)),
      this.field('Headers', [...path, 'headers'], 'choice', HEADERS.map((name, k) => [k ? name : undefined, name])),
      this.more(`more.lanes.${i}`, 'Instances, outages, service',
        this.field('Instances', [...path, 'instances'], 'number'),
        this.field('States', [...path, 'store'], 'choice', [[undefined, 'in one Redis'], ['share', 'a share in each instance']]),
        this.field('Balance', [...path, 'balance'], 'choice', [[undefined, 'in turn'], ['random', 'at random'], ['sticky', 'by client']]),
        this.field('Outages, in ms, such as 5000-15000', [...path, 'outages'], 'pairs'),
        this.field('Spread of Retry-After, in ms', [...path, 'spread'], 'number'),
        this.field('Workers', [...path, 'service', 'workers'], 'number'),
        this.field('Sheds load between, such as 8-200', [...path, 'shed', 'limit'], 'pair'),
        limits.length < 4 ? this.button('Add a limit', `Add a limit to ${lane.name}`, scene => (scene.lanes[i].limits ??= []).push({ policy: policy(`limit ${limits.length + 1}`, 'fixed_window') })) : null));
  }

  limit(limit, path, count) {
    const at = [...path, 'policy'], { strategy } = limit.policy, alone = strategy === 'in_flight' || strategy === 'calendar_window';
    const kind = make('select', { ariaLabel: 'Algorithm' }, ...Object.entries(STRATEGIES).map(([value, name]) => make('option', { value }, name)));
    kind.value = strategy;
    kind.dataset.path = [...at, 'strategy'].join('.');
    kind.addEventListener('change', () => this.change(scene => {
      const lane = scene.lanes[path[1]];
      if (Object.values(STRATEGIES).includes(lane.name)) lane.name = STRATEGIES[kind.value];
      put(scene, at, policy(limit.policy.name, kind.value, limit.policy));
    }, kind));
    return make('div', { className: 'limit' },
      make('div', { className: 'fields' }, make('label', {}, make('span', {}, 'Algorithm'), kind, make('span', { className: 'wrong', role: 'alert', hidden: true })),
        this.field(alone ? 'Limit' : 'Quota', [...at, alone ? 'limit' : 'quota'], alone ? 'number' : 'text')),
      this.more(`more.${path.join('.')}`, 'Options', this.field('Policy', [...at, 'name'], 'text'),
        this.field('One budget', [...path, 'key'], 'choice', [[undefined, 'for each client'], ['all', 'for all']]),
        strategy === 'sliding_window' ? this.field('Slots', [...at, 'slots'], 'number') : null,
        strategy === 'token_bucket' ? this.field('Refill', [...at, 'refill'], 'choice', [[undefined, 'greedy'], ['interval', 'at each interval']]) : null,
        this.field(strategy === 'in_flight' ? 'Lease, such as 10s' : 'Units of a lease', [...at, 'lease'], strategy === 'in_flight' ? 'text' : 'number'),
        this.field('While Redis fails', [...at, 'on_store_failure'], 'choice', FAILURES.map(value => [value, value === undefined ? 'as the library does' : typeof value === 'string' ? value : Object.entries(value).flat().join(' ').replaceAll('_', ' ')])),
        this.field('At the end of a request', [...path, 'settle'], 'choice', [[undefined, 'nothing more'], [true, 'settle what it used']]),
        count > 1 ? this.button('Remove this limit', 'Remove this limit', scene => scene.lanes[path[1]].limits.splice(path[3], 1)) : null));
  }

  /** The whole scene as text, for all that the form does not have. */
  source(scene) {
    const area = make('textarea', { rows: 12, spellcheck: false, ariaLabel: 'The scene as JSON' });
    area.value = JSON.stringify(scene, null, 1);
    const wrong = make('span', { className: 'wrong', role: 'alert', hidden: true });
    const apply = make('button', { type: 'button', onclick: () => {
      let parsed;
      try { parsed = JSON.parse(area.value); } catch (error) { write(wrong, error.message); wrong.hidden = false; return; }
      this.change(scene => { for (const key of Object.keys(scene)) delete scene[key]; Object.assign(scene, parsed); }, area);
    } }, 'Apply');
    apply.dataset.path = 'Apply';
    return this.more('more.source', 'All of it, as JSON', make('label', { className: 'all' }, area, wrong), apply);
  }
}

/** The address and the time of a line. No part can end at several places, so that a line that does not match takes no long time. */
const LINE = /^\s*(\S+) [^\[]*\[(\d+)\/(\w+)\/(\d+):([^\s\]]+)(?: ([^\s\]]*))?\]/;

/** Gives a scene clients for the addresses of a log, and the time that it takes, as far as there is room. */
function fit(scene, text) {
  const lines = text.split('\n').map(line => LINE.exec(line.slice(0, 1000))).filter(Boolean);
  const addresses = [...new Set(lines.map(([, address]) => address))].slice(0, 12);
  const times = lines.map(([, , day, month, year, time, zone]) => Date.parse(`${day} ${month} ${year} ${time} ${zone || '+0000'}`)).filter(time => time);
  const { clients } = scene, rest = clients.slice(addresses.length).filter(({ name }) => !addresses.includes(name));
  scene.clients = addresses.map((name, i) => ({ ...clients[i], name })).concat(rest);
  // What is behind a client that is gone has another place.
  for (const stream of scene.streams) if (stream.client >= addresses.length) stream.client = scene.clients.findIndex(({ name }) => name === clients[stream.client].name);
  const [first, last] = [Math.min, Math.max].map(most => times.reduce((a, b) => most(a, b), times[0]));
  if (times.length) scene.duration = Math.min(600_000, Math.max(scene.duration, last - first + 1000));
}

/** A policy of a strategy, with what it can keep of another one. */
function policy(name, strategy, old = {}) {
  if (strategy === 'in_flight') return { name, strategy, limit: old.limit ?? 5, lease: '10s' };
  if (strategy === 'calendar_window') return { name, strategy, limit: old.limit ?? 20, windows: 'months in UTC' };
  const kept = Object.fromEntries(Object.entries(old).filter(([key]) => ['quota', 'on_store_failure'].includes(key)));
  const quota = kept.quota ?? '10/10s', bursts = ['token_bucket', 'gcra', 'leaky_bucket'].includes(strategy);
  return { name, strategy, ...kept, quota: bursts ? quota : quota.replace(/ burst .*/, '') };
}
