// Marks, colours and figures: what every drawing uses.

/** The columns of a row, as playground/engine/README.md numbers them. */
export const ROW = 16;
export const COLUMN = { at: 0, client: 1, member: 2, cost: 3, outcome: 4, wait: 5, limit: 6, remaining: 7, full: 8, retry: 9,
  decisive: 10, instance: 11, mode: 12, attempt: 13, end: 14, used: 15 };
export const OUTCOMES = ['passed', 'waited', 'rejected', 'store failed', 'shed'];
export const STRATEGIES = {
  token_bucket: 'Token bucket', gcra: 'GCRA', leaky_bucket: 'Leaky bucket', fixed_window: 'Fixed window',
  calendar_window: 'Calendar window', sliding_window: 'Sliding window', sliding_log: 'Sliding log', in_flight: 'In flight',
};

const NAMES = ['ground', 'surface', 'edge', 'edge-strong', 'ink', 'soft', 'rejected', 'c0', 'c1', 'c2', 'c3', 'c4', 'c5'];

/** The colours of the style sheet, as the canvas takes them. */
export function colours() {
  const probe = document.body.appendChild(document.createElement('i'));
  const found = {};
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

/** The colour of a client; of all clients, for -1. */
export const colourOf = (theme, client) => client < 0 ? theme.all : theme[`c${client % 6}`];

/** Adds the shape of a client to the path: clients differ by it as well as by colour. */
export function shape(ctx, client, x, y, r) {
  const points = (...list) => {
    ctx.moveTo(x + list[0] * r, y + list[1] * r);
    for (let i = 2; i < list.length; i += 2) ctx.lineTo(x + list[i] * r, y + list[i + 1] * r);
    ctx.closePath();
  };
  switch ((client < 0 ? 0 : client) % 6) {
    case 0: ctx.moveTo(x + r, y); ctx.arc(x, y, r, 0, 7); ctx.closePath(); break;
    case 1: ctx.rect(x - r * .9, y - r * .9, r * 1.8, r * 1.8); break;
    case 2: points(0, -1.15, 1.1, .9, -1.1, .9); break;
    case 3: points(0, -1.25, 1.15, 0, 0, 1.25, -1.15, 0); break;
    case 4: points(-1, -.35, -.35, -.35, -.35, -1, .35, -1, .35, -.35, 1, -.35, 1, .35, .35, .35, .35, 1, -.35, 1, -.35, .35, -1, .35); break;
    default: points(0, 1.15, 1.1, -.9, -1.1, -.9);
  }
}

/** Draws the mark of a request: full if it was admitted, hollow if not. */
export function mark(ctx, theme, client, outcome, x, y, r, plain = false) {
  ctx.beginPath();
  shape(ctx, client, x, y, r);
  if (outcome < 2 && !plain) {
    ctx.fillStyle = colourOf(theme, client);
    ctx.fill();
    return;
  }
  ctx.lineWidth = Math.max(1.2, r / 3);
  ctx.strokeStyle = outcome < 2 ? colourOf(theme, client) : theme.rejected;
  ctx.stroke();
  // A request that was shed is crossed out, and one without a store has a point.
  if (outcome === 4) { ctx.beginPath(); ctx.moveTo(x - r, y + r); ctx.lineTo(x + r, y - r); ctx.stroke(); }
  if (outcome === 3) { ctx.beginPath(); ctx.arc(x, y, r / 3, 0, 7); ctx.fillStyle = theme.rejected; ctx.fill(); }
}

/** Draws a straight line. */
export function line(ctx, x1, y1, x2, y2, colour, width = 1) {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.lineWidth = width;
  ctx.strokeStyle = colour;
  ctx.stroke();
}

/** The last index whose instant is not after `now`, or -1. `step` numbers belong to each. */
export function before(array, now, step = 1) {
  let low = 0, high = array.length / step;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle * step] <= now) low = middle + 1; else high = middle;
  }
  return low - 1;
}

const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
export const number = value => grouped.format(value);

/** A time in microseconds, for people. */
export function time(micros) {
  if (micros < 0) return '–';
  if (micros < 1e6) return `${number(micros / 1e3)} ms`;
  if (micros < 120e6) return `${number(micros / 1e6)} s`;
  return micros < 7200e6 ? `${number(micros / 60e6)} min` : micros < 172800e6 ? `${number(micros / 3600e6)} h` : `${number(micros / 86400e6)} days`;
}

/** Makes an element: properties, data and aria attributes, children. */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== 'list' && key !== 'form') element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

/** Writes a text if it differs. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
