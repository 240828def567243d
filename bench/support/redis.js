import { Redis } from 'ioredis'
import { freePort } from './ports.js'

/** Starts a Redis without persistence. */
export async function startRedis ({ programs, tools, folder }) {
  const port = await freePort()
  const args = [
    '--port',
    port,
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
    '--maxmemory',
    '256mb',
    '--maxmemory-policy',
    'allkeys-lru'
  ]
  const program = await programs.start('redis-server', [tools.paths['redis-server'], ...args.map(String)], {
    cwd: await folder('redis')
  })
  await program.says(line => line.includes('eady to accept connections') || undefined)
  // Disables reconnects and ignores connection errors, since commands then fail and report them.
  const client = new Redis(port, { retryStrategy: () => null }).on('error', () => {})
  return {
    url: `redis://127.0.0.1:${port}`,
    client,
    stop: async () => {
      client.disconnect()
      await program.stop()
    }
  }
}
