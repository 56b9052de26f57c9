// The page: the scenes one below the other, and the toy.

import { file, start } from './engine.js';
import { make, write } from './draw/marks.js';
import { Player, still } from './player.js';
import { FIRST, Toy } from './toy.js';

const $ = id => document.getElementById(id);
const ask = start(), players = new Map();
let current = null;

/** Plays a scene when it is seen for the first time, and computes it shortly before. */
const near = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    const player = players.get(target.id);
    if (isIntersecting && !player.scene) player.load(player.built);
    else if (isIntersecting) player.layout();
    else player.lanes.forEach(lane => lane.chart.release());
    player.near = isIntersecting;
  }
}, { rootMargin: '60% 0px' });
const seen = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    const player = players.get(target.closest('section').id);
    player.visible = isIntersecting;
    if (!isIntersecting && player.playing) player.pause();
  }
  // The scene that the keys play is the one whose figures are nearest to the middle.
  const away = ({ element }) => { const { top, bottom } = element.getBoundingClientRect(), middle = innerHeight / 2; return Math.max(0, top - middle, middle - bottom); };
  const visible = [...players].filter(([, player]) => player.visible).sort((a, b) => away(a[1]) - away(b[1]));
  if (visible.length) take(visible[0][1]);
}, { rootMargin: '-30% 0px -30% 0px' });

function take(player) {
  current = player;
  for (const link of $('nav').children) link.setAttribute('aria-current', players.get(link.hash.slice(1)) === player);
}

function add(section, player) {
  players.set(section.id, player);
  near.observe(section);
  seen.observe(player.element);
}

function addLink(id, text, title) {
  $('nav').append(make('a', { href: `#${id}`, title, ariaLabel: title }, text));
}

let before = 0;
/** The script of a frame. */
export function frame(at) {
  const passed = Math.min(100, at - before);
  before = at;
  for (const player of players.values()) {
    if (player.playing && player.result) player.advance(passed);
    else if (player === current && player.visible && player.result && !player.played && !still.matches) { player.played = true; player.play(); }
  }
}
function loop(at) {
  frame(at);
  requestAnimationFrame(loop);
}

document.addEventListener('playing', ({ detail }) => {
  take(detail);
  detail.played = true;
  for (const player of players.values()) if (player !== detail && player.playing) player.pause();
});
document.addEventListener('pointerdown', ({ target }) => { current = players.get(target.closest?.('section')?.id) ?? current; });
document.addEventListener('focusin', ({ target }) => { current = players.get(target.closest?.('section')?.id) ?? current; });
document.addEventListener('keydown', event => {
  const { target, key } = event, range = target.type === 'range';
  if (!current?.result || event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.closest('select, textarea, pre') || (target.localName === 'input' && !range)) return;
  if (key === ' ' && !target.closest('button, summary, a')) current.toggle();
  else if (key === 'ArrowLeft') current.step(-1);
  else if (key === 'ArrowRight') current.step(1);
  else return;
  event.preventDefault();
});

let resized = 0;
function layout() {
  clearTimeout(resized);
  resized = setTimeout(() => { for (const player of players.values()) if (player.near) player.layout(); }, 60);
}
addEventListener('resize', layout);
for (const query of ['(prefers-color-scheme: dark)', '(min-resolution: 1.5dppx)']) matchMedia(query).addEventListener('change', layout);

const THEMES = ['system', 'light', 'dark'];
function theme(name) {
  if (name === 'system') delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
  write($('theme'), `Theme: ${name}`);
  layout();
}
$('theme').addEventListener('click', () => theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? 'system') + 1) % THEMES.length]));

const scenes = await file('scenes.json').then(answer => answer.json()).catch(({ message }) => ({ error: `The scenes could not be read: ${message}` }));
const version = await ask('version');
const problem = version.error ?? scenes.error;
if (problem) {
  write($('problem'), problem);
  $('problem').hidden = false;
} else {
  write($('version'), version);
  const toy = new Toy(ask, $('toy'));
  scenes.forEach((scene, i) => {
    const player = new Player(ask);
    player.built = scene;
    player.reserve(scene);
    const open = make('button', { type: 'button', className: 'quiet', onclick: () => toy.open(player.scene) }, 'Open in the toy');
    const section = make('section', { className: 'scene wide', id: scene.id, 'aria-labelledby': `${scene.id}-title` },
      make('p', { className: 'kicker' }, make('a', { href: `#${scene.id}`, ariaLabel: 'Link to this scene' }, String(i + 1))), make('h2', { id: `${scene.id}-title` }, scene.title), make('p', { className: 'note' }, scene.note),
      player.element, make('p', { className: 'after' }, open));
    $('scenes').append(section);
    addLink(scene.id, String(i + 1), scene.title);
    add(section, player);
  });
  addLink('toy', 'Toy', 'The toy');
  toy.player.built = FIRST;
  toy.player.reserve(FIRST);
  add($('toy'), toy.player);
  const restore = async () => {
    if (!await toy.restore() && location.hash.length > 1) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  };
  addEventListener('hashchange', restore);
  requestAnimationFrame(loop);
  await restore();
}
// What a test looks at.
globalThis.playground = { players, frame };
