import { type Test } from 'tap'
import { certificate, certificateKey } from './certificate.js'
import { type RedisProcess, startProcess } from './redis-process.js'
import { until } from './until.js'

/** What may be different from a healthy server without a password. */
export interface RedisOptions {
  /** To come up at a certain port, where another was before. */
  readonly port?: number
  readonly password?: string
  readonly tls?: boolean
  readonly maxmemory?: string
  readonly maxmemoryPolicy?: string
  /** Makes it a read-only replica, which has caught up with its master before the test goes on. */
  readonly replicaOf?: RedisProcess
  /** Any further arguments of redis-server. */
  readonly args?: readonly string[]
}

/**
 * Starts a real redis-server and waits until it takes connections; the set-up script has seen to it that there is one.
 */
export async function startRedis (t: Test, options: RedisOptions = {}): Promise<RedisProcess> {
  const { port, password, tls = false, maxmemory = '64mb', maxmemoryPolicy = 'allkeys-lru', replicaOf, args = [] } =
    options
  const redis = await startProcess(t, {
    port,
    password,
    tls,
    ready: /eady to accept connections/,
    files: () => tls ? tlsFiles : {},
    args: port => [
      ...listenArguments(port, tls),
      '--save',
      '',
      '--appendonly',
      'no',
      // Replicas need not wait for one another.
      '--repl-diskless-sync',
      'yes',
      '--repl-diskless-sync-delay',
      '0',
      '--maxmemory',
      maxmemory,
      '--maxmemory-policy',
      maxmemoryPolicy,
      ...(password === undefined ? [] : ['--requirepass', password, '--masterauth', password]),
      ...(replicaOf === undefined ? [] : ['--replicaof', '127.0.0.1', String(replicaOf.port)]),
      ...args
    ]
  })
  if (replicaOf !== undefined) await untilFollowing(redis, replicaOf)
  return redis
}

/** Makes a server the read-only replica of another while it runs, or its own master again. */
export async function replicate (redis: RedisProcess, master: RedisProcess | undefined): Promise<void> {
  if (master === undefined) {
    await redis.client.replicaof('NO', 'ONE')
    return
  }
  await redis.client.replicaof('127.0.0.1', master.port)
  await untilFollowing(redis, master)
}

/** Waits until a replica has all that its master has. */
export async function untilFollowing (redis: RedisProcess, master: RedisProcess): Promise<void> {
  await until(async () => {
    const info = await redis.client.info('replication')
    return info.includes(`master_port:${master.port}\r`) && info.includes('master_link_status:up')
  }, `${redis.host} follows ${master.host}`)
}

/** The arguments that make it listen on the loopback, with or without TLS. */
export function listenArguments (port: number, tls: boolean): string[] {
  const plain = ['--bind', '127.0.0.1', '--port', tls ? '0' : String(port)]
  if (!tls) return plain
  return [
    ...plain,
    '--tls-port',
    String(port),
    '--tls-replication',
    'yes',
    '--tls-auth-clients',
    'no',
    '--tls-cert-file',
    'certificate.pem',
    '--tls-key-file',
    'key.pem',
    '--tls-ca-cert-file',
    'certificate.pem'
  ]
}

/** What a server with TLS finds in its folder. */
export const tlsFiles: Record<string, string> = { 'certificate.pem': certificate, 'key.pem': certificateKey }
