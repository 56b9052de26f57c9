// A scene elsewhere: as an address, as Rust, as rules in a file, as a scenario of `portcullis replay`.

import { make, write } from './draw/marks.js';

const PREFIX = '#toy=';

/** The most bytes of a scene in an address: room for a pasted log of as many lines as there may be requests. */
const MOST = 4_000_000;

async function through(stream, bytes, most = Infinity) {
  let length = 0;
  const counted = new TransformStream({
    transform(part, controller) {
      if ((length += part.length) > most) throw new RangeError(`more than ${most} bytes`);
      controller.enqueue(part);
    },
  });
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream).pipeThrough(counted)).arrayBuffer());
}

/** The scene as the fragment of an address. */
export async function toAddress(scene) {
  const packed = await through(new CompressionStream('deflate-raw'), new TextEncoder().encode(JSON.stringify(scene)));
  return PREFIX + btoa(Array.from(packed, byte => String.fromCharCode(byte)).join('')).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

/** The scene of a fragment: null if it cannot be read or is too long, undefined if it is another fragment. Only the engine says whether it is a scene. */
export async function fromAddress(fragment) {
  if (!fragment.startsWith(PREFIX)) return undefined;
  try {
    const packed = Uint8Array.from(atob(fragment.slice(PREFIX.length).replaceAll('-', '+').replaceAll('_', '/')), one => one.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(await through(new DecompressionStream('deflate-raw'), packed, MOST)));
  } catch {
    return null;
  }
}

const FORMS = {
  link: ['Link', ''], rust: ['Rust', 'limits.rs'], toml: ['limits.toml', 'limits.toml'], scenario: ['portcullis replay', 'scenario.toml'], scene: ['Scene', 'scene.json'],
};
const NOTES = {
  link: 'This address has the whole scene.', rust: 'The layer of this lane, for an axum service.', toml: 'The rules of this lane, for a file that is read anew when it changes.',
  scenario: 'The requests of this lane, and what is expected: portcullis replay sends them through a real Redis.', scene: 'The scene as the engine reads it.',
};

export class Output {
  constructor(ask) {
    Object.assign(this, { ask, form: 'link' });
    this.tabs = make('div', { className: 'tabs', role: 'group', ariaLabel: 'Form' }, ...Object.entries(FORMS).map(([form, [name]]) =>
      make('button', { type: 'button', className: 'quiet', id: `out-${form}`, onclick: () => { this.form = form; this.render(); } }, name)));
    this.lanes = make('select', { ariaLabel: 'Lane', onchange: () => this.render() });
    this.note = make('p', { className: 'soft small' });
    this.text = make('pre', { tabIndex: 0, id: 'out-text', ariaLabel: 'The scene in this form' });
    this.copy = make('button', { type: 'button', onclick: () => this.copied() }, 'Copy');
    this.file = make('a', { className: 'button' }, 'Download');
    this.element = make('section', { className: 'out', ariaLabel: 'Take it with you' },
      make('h3', {}, 'Take it with you'), make('div', { className: 'title' }, this.tabs, this.lanes), this.note, this.text, make('p', { className: 'title' }, this.copy, this.file));
  }

  show(scene) {
    this.scene = scene;
    const chosen = Math.min(Math.max(0, this.lanes.selectedIndex), scene.lanes.length - 1);
    this.lanes.replaceChildren(...scene.lanes.map(({ name }, i) => make('option', { value: i }, name)));
    this.lanes.selectedIndex = chosen;
    this.render();
  }

  async render() {
    const { form, scene } = this, lane = this.lanes.selectedIndex;
    for (const button of this.tabs.children) button.setAttribute('aria-pressed', String(button.id === `out-${form}`));
    this.lanes.hidden = form === 'link' || form === 'scene';
    const text = form === 'link' ? location.href.split('#')[0] + await toAddress(scene)
      : form === 'scene' ? JSON.stringify(scene, null, 2)
      : await this.ask('export', { scene, lane }).then(answer => answer.error ?? answer[form]);
    if (form !== this.form || scene !== this.scene || lane !== this.lanes.selectedIndex) return;
    write(this.note, text === null ? 'This form cannot express this lane.' : NOTES[form]);
    write(this.text, text ?? '');
    this.text.hidden = this.copy.hidden = text === null;
    this.file.hidden = form === 'link' || text === null;
    URL.revokeObjectURL(this.file.href);
    if (!this.file.hidden) Object.assign(this.file, { href: URL.createObjectURL(new Blob([text], { type: 'text/plain' })), download: FORMS[form][1] });
  }

  async copied() {
    try {
      await navigator.clipboard.writeText(this.text.textContent);
      write(this.copy, 'Copied');
      setTimeout(() => write(this.copy, 'Copy'), 1500);
    } catch {
      // Without a clipboard the text is selected, to be copied by hand.
      getSelection().selectAllChildren(this.text);
    }
  }
}
