import { type Test } from 'tap'
import { type RedisProcess, startProcess } from './redis-process.js'
import { listenArguments, type RedisOptions, startRedis, tlsFiles } from './redis-server.js'
import { until } from './until.js'

/** Differences from one master with one replica and no passwords. */
export interface SentinelOptions
  extends Pick<RedisOptions, 'password' | 'tls' | 'maxmemory' | 'maxmemoryPolicy' | 'args'> {
  readonly replicas?: 1 | 2
  /** Password of the sentinels. */
  readonly sentinelPassword?: string
  /** Time after which a sentinel declares a silent master dead. */
  readonly downAfterMs?: number
}

const name = 'varve'

/** Starts a master, its replicas and three sentinels, and waits until the sentinels know all. */
export async function startSentinel (t: Test, options: SentinelOptions = {}): Promise<RedisSentinel> {
  const { replicas = 1, sentinelPassword, downAfterMs = 500, ...rest } = options
  const master = await startRedis(t, rest)
  const followers = await Promise.all(
    Array.from({ length: replicas }, async () => await startRedis(t, { ...rest, replicaOf: master }))
  )
  const sentinels = await Promise.all([1, 2, 3].map(async () =>
    await startProcess(t, {
      tls: rest.tls,
      password: sentinelPassword,
      ready: /Sentinel ID is/,
      files: port => ({
        ...(rest.tls === true ? tlsFiles : {}),
        'sentinel.conf': configOf(port, master, options, downAfterMs)
      }),
      args: () => ['sentinel.conf', '--sentinel']
    })
  ))
  const set = new RedisSentinel([master, ...followers], sentinels)
  await set.meet()
  return set
}

/** A running set of servers and sentinels. */
export class RedisSentinel {
  readonly name = name
  /** Servers; the first was the master at the start. */
  readonly servers: readonly RedisProcess[]
  readonly sentinels: readonly RedisProcess[]
  #master: RedisProcess

  constructor (servers: readonly RedisProcess[], sentinels: readonly RedisProcess[]) {
    const [first] = servers
    if (first === undefined) throw new Error('a set has a master')
    this.servers = servers
    this.sentinels = sentinels
    this.#master = first
  }

  /** Addresses of the sentinels. */
  get hosts (): string[] {
    return this.sentinels.map(sentinel => sentinel.host)
  }

  /** Master after the last complete failover. */
  get master (): RedisProcess {
    return this.#master
  }

  get replicas (): RedisProcess[] {
    return this.servers.filter(server => server !== this.#master)
  }

  /** Waits until the sentinels know each other and the replicas. */
  async meet (): Promise<void> {
    // Shortens the intervals, which Redis 7 allows; earlier releases take two seconds.
    const hurry = [
      'publish-period',
      '200',
      'info-period',
      '500',
      'slave-reconf-timeout',
      '1000',
      'tilt-period',
      '1000',
      'min-link-reconnect-period',
      '1000'
    ]
    for (const { client } of this.sentinels) await client.call('SENTINEL', 'DEBUG', ...hurry).catch(() => {})
    await until(async () => {
      const views = await Promise.all(
        this.sentinels.map(async ({ client }) => await client.call('SENTINEL', 'MASTER', name) as string[])
      )
      const others = String(this.sentinels.length - 1)
      return views.every(view =>
        valueIn(view, 'num-other-sentinels') === others && valueIn(view, 'num-slaves') === String(this.replicas.length)
      ) &&
        (await Promise.all(this.sentinels.map(async sentinel => await this.#hasQuorum(sentinel)))).every(Boolean)
    }, 'the sentinels know one another and the replicas')
  }

  /** Triggers a failover: the old master lives and becomes a replica. */
  async failover (): Promise<void> {
    await until(
      async () => await this.#living().client.call('SENTINEL', 'FAILOVER', name) === 'OK',
      'a sentinel begins a failover'
    )
    await this.untilMoved()
  }

  /** Kills the master and waits until another is announced. */
  async killMaster (): Promise<void> {
    await this.#master.kill()
    await this.untilMoved()
  }

  /** Waits until every running sentinel announces a new master and it accepts writes. */
  async untilMoved (): Promise<void> {
    await until(async () => {
      const living = this.sentinels.filter(sentinel => sentinel.isRunning)
      const ports = await Promise.all(
        living.map(async ({ client }) =>
          (await client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name) as string[])[1]
        )
      )
      const next = this.servers.find(({ port }) => String(port) === ports[0])
      if (next === undefined || next === this.#master || ports.some(port => port !== ports[0])) return false
      if (!(await next.client.info('replication')).includes('role:master')) return false
      this.#master = next
      return true
    }, 'another master is announced')
  }

  async #hasQuorum ({ client }: RedisProcess): Promise<boolean> {
    return String(await client.call('SENTINEL', 'CKQUORUM', name)).startsWith('OK')
  }

  #living (): RedisProcess {
    const sentinel = this.sentinels.find(each => each.isRunning)
    if (sentinel === undefined) throw new Error('no sentinel runs')
    return sentinel
  }
}

function configOf (
  port: number,
  master: RedisProcess,
  { password, tls = false, sentinelPassword }: SentinelOptions,
  downAfterMs: number
): string {
  const listen = listenArguments(port, tls).join(' ').split(/ ?--/).filter(line => line !== '')
  return [
    ...listen,
    `sentinel monitor ${name} 127.0.0.1 ${master.port} 2`,
    `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
    `sentinel failover-timeout ${name} 3000`,
    ...(password === undefined ? [] : [`sentinel auth-pass ${name} ${password}`]),
    ...(sentinelPassword === undefined
      ? []
      : [`requirepass ${sentinelPassword}`, `sentinel sentinel-pass ${sentinelPassword}`]),
    ''
  ].join('\n')
}

/** Returns a value of a flat list of names and values. */
function valueIn (list: readonly string[], key: string): string | undefined {
  return list[list.indexOf(key) + 1]
}
