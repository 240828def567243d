import { setTimeout as pause } from 'node:timers/promises'

// A tier drops what it cannot take in time; a busy machine has a few.
const mostDropped = 0.05
const atOnce = 4
const limitMs = 60_000

/** Reads everything through a varve, at the pace at which a tier stores it, since writes are asynchronous. */
export async function fillTier (varve, tier, requests) {
  const settled = async () => {
    const metrics = await varve.metrics()
    const of = what => metrics.sum(`varve_cache_${what}_total`, `tier="${tier}"`)
    return { written: of('writes'), dropped: of('writes_dropped') }
  }
  const deadline = performance.now() + limitMs
  for (let sent = 0; sent < requests.length;) {
    const some = requests.slice(sent, sent + atOnce)
    await Promise.all(some.map(async request => await varve.ask(request)))
    sent += some.length
    for (let now = await settled(); now.written + now.dropped < sent; now = await settled()) {
      if (performance.now() > deadline) throw new Error(`varve stored ${now.written} of ${sent} responses: ${tier}`)
      await pause(5)
    }
  }
  const { dropped } = await settled()
  if (dropped > requests.length * mostDropped) throw new Error(`varve dropped ${dropped} responses: ${tier}`)
}
