// Calls the engine, which decides. playground/engine/README.md describes its functions and texts.

/** Fetches a file of the page. */
export async function file(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address} is answered with ${answer.status}`);
  return answer;
}

/** Loads the engine, and returns a function that calls one of its exports with a text. */
export async function load(address) {
  const packed = await file(address);
  const bytes = new Response(packed.body.pipeThrough(new DecompressionStream('gzip')));
  const program = await WebAssembly.compile(await bytes.arrayBuffer());
  let engine = null;
  return (name, text = '') => {
    try {
      engine ??= new WebAssembly.Instance(program).exports;
      const utf8 = new TextEncoder().encode(text);
      // Room for a long text is a new buffer.
      const at = engine.input(utf8.length);
      new Uint8Array(engine.memory.buffer, at, utf8.length).set(utf8);
      const length = engine[name]();
      return new TextDecoder().decode(new Uint8Array(engine.memory.buffer, engine.output(), length));
    } catch (error) {
      // Nothing more can be said of its memory: the next call has a new one.
      engine = null;
      throw error;
    }
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
  let last = 0, failed = null;
  worker.onerror = () => {
    failed = { error: 'The engine could not be started: this page needs a browser with WebAssembly.' };
    for (const answer of asked.values()) answer(failed);
    asked.clear();
  };
  return (name, value) => new Promise(done => {
    if (failed) return done(failed);
    asked.set(last += 1, done);
    worker.postMessage({ id: last, name, value });
  });
}
