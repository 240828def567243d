import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Returns a free loopback port whose cluster bus port, ten thousand above, is free too. Both are below the system's
 * ephemeral range, so that a restarted server gets its port again.
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
