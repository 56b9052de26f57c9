// Calls the engine, which decides. playground/engine/README.md describes its functions and texts.

/** Loads the engine, and returns a function that calls one of its exports with a text. */
export async function load(address) {
  const packed = await fetch(address);
  const bytes = new Response(packed.body.pipeThrough(new DecompressionStream('gzip')));
  const { instance } = await WebAssembly.instantiate(await bytes.arrayBuffer());
  const engine = instance.exports;
  return (name, text = '') => {
    const utf8 = new TextEncoder().encode(text);
    new Uint8Array(engine.memory.buffer, engine.input(utf8.length), utf8.length).set(utf8);
    const length = engine[name]();
    return new TextDecoder().decode(new Uint8Array(engine.memory.buffer, engine.output(), length));
  };
}

/** Starts the engine beside the page, so that no frame waits for it, and returns a function that asks it. */
export function start() {
  const worker = new Worker('worker.js', { type: 'module' });
  const asked = new Map();
  worker.onmessage = ({ data: { id, answer } }) => {
    asked.get(id)(answer);
    asked.delete(id);
  };
  worker.onerror = () => {
    for (const answer of asked.values()) answer({ error: 'The engine could not be started: this page needs a browser with WebAssembly.' });
    asked.clear();
  };
  let last = 0;
  return (name, value) => new Promise(done => {
    asked.set(last += 1, done);
    worker.postMessage({ id: last, name, value });
  });
}
