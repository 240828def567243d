import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A port of the loopback at which nobody listens, and neither does anybody ten thousand above, where a cluster node
 * talks with the others. Both lie below what systems give out by themselves, so that a server that was killed finds its
 * own again.
 */
export async function freePort (): Promise<number> {
  for (;;) {
    const port = 11_000 + Math.floor(Math.random() * 11_000)
    if (await isFree(port) && await isFree(port + 10_000)) return port
  }
}

async function isFree (port: number): Promise<boolean> {
  const probe = createServer().listen(port, '127.0.0.1')
  try {
    await once(probe, 'listening')
  } catch {
    return false
  }
  await new Promise(resolve => {
    probe.close(resolve)
  })
  return true
}
