import { inParallel } from './timed-request.js'
import { loadMany, loadOne, loadVersions } from './wrk.js'

// Smoke runs check responses only, which need neither wrk nor two busy cores.
const smokeRequests = 200

/** Loads a server with one repeated request. */
export async function load (bench, peer, request, how) {
  if (bench.isSmoke) return await loadByNode(bench, peer, [request], how)
  return await loadOne(bench, peer.url, request.path, how)
}

/** Loads a server with a repeated list of requests. */
export async function loadTrace (bench, peer, requests, how) {
  if (bench.isSmoke) return await loadByNode(bench, peer, requests, how)
  return await loadMany(bench, peer.url, requests, how)
}

/** Loads a server with reads of rising versions, none of them twice; responses other than 200 are counted. */
export async function loadRising (bench, peer, { first, readOf }, how) {
  if (!bench.isSmoke) return await loadVersions(bench, peer.url, readOf(first).path, how)
  const requests = Array.from({ length: smokeRequests }, (_, at) => readOf(first + at))
  const started = performance.now()
  const answered = await loadByNode(bench, peer, requests, how)
  return { ...answered, rejected: 0, latencyMs: { p99: performance.now() - started } }
}

async function loadByNode (bench, peer, requests, { connections, headers }) {
  const started = performance.now()
  const list = Array.from({ length: smokeRequests }, (_, at) => ({ headers, ...requests[at % requests.length] }))
  await inParallel(list, connections, async request => {
    const { status } = await peer.ask(request)
    if (status !== 200) throw new Error(`${peer.name} responded ${status} to ${request.path}`)
  })
  return { requests: smokeRequests, perSecond: smokeRequests / (performance.now() - started) * 1000 }
}
