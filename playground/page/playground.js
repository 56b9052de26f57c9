// Draws what the engine computes. The engine decides; see playground/engine/README.md for its calls.

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

const call = await load('playground.wasm.gz');
globalThis.call = call;
const scenes = JSON.parse(call('scenes'));
document.getElementById('scenes').textContent = scenes.map((scene) => {
  const { lanes } = JSON.parse(call('run', JSON.stringify(scene)));
  const counts = lanes.map(({ name, counts }) => `  ${name}: ${counts.admitted} of ${counts.requests}`);
  return [scene.title, ...counts].join('\n');
}).join('\n\n');
document.getElementById('state').textContent = `version ${call('version')}`;
