// Draws what the engine computes.

import { load } from './engine.js';

const call = await load('playground.wasm.gz');
const scenes = JSON.parse(call('scenes'));
document.getElementById('scenes').textContent = scenes.map((scene) => {
  const { lanes } = JSON.parse(call('run', JSON.stringify(scene)));
  const counts = lanes.map(({ name, counts }) => `  ${name}: ${counts.admitted} of ${counts.requests}`);
  return [scene.title, ...counts].join('\n');
}).join('\n\n');
document.getElementById('state').textContent = `version ${call('version')}`;
