/** Asserts that a response has the upstream's body and, unless `hit` is false, is a cache hit. */
export function mustBeRight (peer, request, answer, expected, { hit = true } = {}) {
  const what = `${peer.name}, ${request.method ?? 'GET'} ${request.path}`
  if (answer.status !== 200) throw new Error(`${what}: status ${answer.status}`)
  if (!answer.body.equals(expected)) {
    throw new Error(`${what}: not the upstream's body (${answer.body.length} bytes, not ${expected.length})`)
  }
  if (hit && !peer.isHit(answer)) throw new Error(`${what}: not from the cache (${JSON.stringify(answer.lines)})`)
}

/** Fills the cache with a read and asserts that the second response is a correct hit. */
export async function warmWith (peer, request, expected) {
  await peer.ask(request)
  mustBeRight(peer, request, await peer.ask(request), expected)
}
