import { once } from 'node:events'
import { createServer } from 'node:net'

/** Finds a free loopback port below the ephemeral range, so that no outgoing connection takes it first. */
export async function freePort () {
  for (;;) {
    const port = 11_000 + Math.floor(Math.random() * 20_000)
    if (await isFree(port)) return port
  }
}

async function isFree (port) {
  const probe = createServer().listen(port, '127.0.0.1')
  try {
    await once(probe, 'listening')
  } catch {
    return false
  }
  probe.close()
  await once(probe, 'close')
  return true
}
