import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Test } from 'tap'

/** A real redis-server of a test's own. */
export interface RedisServer {
  /** Where it listens: a socket in a folder of its own, so that no two tests can meet on a port. */
  readonly path: string
}

/** Starts a real redis-server and waits until it takes connections; the set-up script has seen to it that there is one. */
export async function redisServer (t: Test): Promise<RedisServer> {
  // A socket's path may hold a hundred letters at most, so it does not lie in the test's own folder.
  const folder = await mkdtemp(join(tmpdir(), 'varve-'))
  const path = join(folder, 'redis.sock')
  const child = spawn('redis-server', ['--port', '0', '--unixsocket', path, '--save', '', '--appendonly', 'no'], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    await rm(folder, { recursive: true })
  })
  const lines = createInterface(child.stdout)
  for await (const line of lines) if (line.includes('ready to accept connections')) break
  child.stdout.resume()
  return { path }
}
