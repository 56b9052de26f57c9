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
