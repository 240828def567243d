/** Times one read to the end of its body; `dispatch` has the least client overhead and preserves raw headers. */
export function ask (client, { method = 'GET', path, headers, body }) {
  return new Promise((resolve, reject) => {
    const started = performance.now()
    const answer = { status: 0, lines: [] }
    const chunks = []
    client.dispatch({ method, path, headers, body }, {
      onConnect () {},
      onHeaders (status, raw) {
        answer.status = status
        answer.lines = raw.map(bytes => bytes.toString('latin1'))
        return true
      },
      onData (chunk) {
        chunks.push(chunk)
        return true
      },
      onComplete () {
        answer.ms = performance.now() - started
        answer.body = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)
        resolve(answer)
      },
      onError: reject
    })
  })
}

/** Returns a header's value; names are case-insensitive (RFC 9110, section 5.1). */
export function lineOf ({ lines }, name) {
  const at = lines.findIndex((text, index) => index % 2 === 0 && text.toLowerCase() === name)
  return at === -1 ? undefined : lines[at + 1]
}

/** Processes all items with limited concurrency. */
export async function inParallel (items, atOnce, work) {
  let next = 0
  await Promise.all(Array.from({ length: atOnce }, async () => {
    while (next < items.length) {
      const at = next++
      await work(items[at], at)
    }
  }))
}
