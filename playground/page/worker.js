// The engine, beside the page. Results are packed into arrays that are handed over without a copy.

import { load } from './engine.js';

const loading = load('playground.wasm.gz');
const CLIENT = 1, OUTCOME = 4, INSTANCE = 11;

onmessage = async ({ data: { id, name, value } }) => {
  const transfer = [];
  let call, answer;
  try {
    call = await loading;
    const text = call(name, value === undefined ? '' : JSON.stringify(value));
    answer = name === 'version' ? text : JSON.parse(text);
    if (name === 'run' && !answer.error) for (const lane of answer.lanes) pack(lane, transfer);
  } catch (error) {
    answer = { error: `The engine ${call ? 'stopped' : 'could not be started'}: ${error.message}` };
  }
  postMessage({ id, answer }, transfer);
};

function pack(lane, transfer) {
  const keep = array => (transfer.push(array.buffer), array);
  const { rows } = lane, count = rows.length;
  // How many requests were admitted among the first ones.
  const admitted = keep(new Uint32Array(count + 1));
  for (let i = 0; i < count; i++) admitted[i + 1] = admitted[i] + (rows[i][OUTCOME] < 2);
  lane.admitted = admitted;
  lane.rows = keep(Float64Array.from(rows.flat()));
  lane.series = lane.states.map((samples, limit) => {
    const kinds = new Map();
    for (const sample of samples) {
      const key = `${sample[1]} ${sample[2]}`;
      if (!kinds.has(key)) kinds.set(key, { client: sample[1], instance: sample[2], samples: [] });
      kinds.get(key).samples.push(sample);
    }
    const sorted = [...kinds.values()].sort((a, b) => a.client - b.client || a.instance - b.instance);
    return sorted.map(({ client, instance, samples }) => {
      const first = new Uint32Array(samples.length + 1);
      samples.forEach((sample, i) => { first[i + 1] = first[i] + sample.length; });
      // The instants that a log keeps.
      const one = sorted.every(other => other.instance === instance);
      const kept = lane.limits[limit].strategy === 'sliding_log'
        ? rows.filter(row => row[OUTCOME] < 2 && (client < 0 || row[CLIENT] === client) && (one || row[INSTANCE] === instance)).map(row => row[0]) : [];
      return {
        log: keep(Float64Array.from(kept)), client, instance, first: keep(first), at: keep(Float64Array.from(samples, sample => sample[0])),
        data: keep(Float64Array.from(samples.flat())),
      };
    });
  });
  delete lane.states;
}
