/**
 * One read over a connection of undici's, timed to the end of its body. Going by `dispatch` leaves the client's own
 * part of the time small, and header lines as they came.
 */
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

/** The value of a header line, whatever the case of its name. */
export function lineOf ({ lines }, name) {
  const at = lines.findIndex((text, index) => index % 2 === 0 && text.toLowerCase() === name)
  return at === -1 ? undefined : lines[at + 1]
}

/** Does some work for each item, so many at once. */
export async function inParallel (items, atOnce, work) {
  let next = 0
  await Promise.all(Array.from({ length: atOnce }, async () => {
    while (next < items.length) {
      const at = next++
      await work(items[at], at)
    }
  }))
}
