import { type Test } from 'tap'
import { certificate, certificateKey } from './certificate.js'
import { type RedisProcess, startProcess } from './redis-process.js'
import { until } from './until.js'

/** Differences from a healthy server without a password. */
export interface RedisOptions {
  /** Fixed port, to replace another server. */
  readonly port?: number
  readonly password?: string
  readonly tls?: boolean
  readonly maxmemory?: string
  readonly maxmemoryPolicy?: string
  /** Master of a read-only replica, which has caught up when the test continues. */
  readonly replicaOf?: RedisProcess
  /** Further arguments of redis-server. */
  readonly args?: readonly string[]
}

/** Starts a real redis-server and waits until it is ready; the set-up script guarantees that one is installed. */
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
      // Starts replication at once, without waiting for further replicas.
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

/** Turns a running server into a read-only replica, or into its own master again. */
export async function replicate (redis: RedisProcess, master: RedisProcess | undefined): Promise<void> {
  if (master === undefined) {
    await redis.client.replicaof('NO', 'ONE')
    return
  }
  await redis.client.replicaof('127.0.0.1', master.port)
  await untilFollowing(redis, master)
}

/** Waits until a replica has all data of its master. */
export async function untilFollowing (redis: RedisProcess, master: RedisProcess): Promise<void> {
  await until(async () => {
    const info = await redis.client.info('replication')
    return info.includes(`master_port:${master.port}\r`) && info.includes('master_link_status:up')
  }, `${redis.host} follows ${master.host}`)
}

/** Returns arguments to listen on the loopback, with or without TLS. */
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

/** Files of a server with TLS. */
export const tlsFiles: Record<string, string> = { 'certificate.pem': certificate, 'key.pem': certificateKey }
