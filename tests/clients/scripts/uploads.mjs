// Uploads more than a limited server permits, with the client of Node.js. Prints each answer.
const [url, size, times] = process.argv.slice(2);
for (let upload = 0; upload < Number(times); upload += 1) {
  const answer = await fetch(url, { method: "POST", body: new Uint8Array(Number(size)) });
  await answer.text();
  console.log(answer.status, answer.headers.get("retry-after"));
}
