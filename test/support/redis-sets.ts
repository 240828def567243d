import { Cluster } from 'ioredis'
import { type Test } from 'tap'
import { certificate } from './certificate.js'
import {
  type RedisOptions,
  type RedisProcess,
  startRedis,
  listenArguments,
  startProcess,
  tlsFiles
} from './redis-server.js'
import { until } from './until.js'

/** Differences from a cluster without a password. */
export interface ClusterOptions
  extends Pick<RedisOptions, 'password' | 'tls' | 'maxmemory' | 'maxmemoryPolicy' | 'args'> {
  /** Time after which nodes declare one of them dead. */
  readonly nodeTimeoutMs?: number
}

const slots = 16_384

/** Starts a cluster of three masters with a third of the slots each, and waits until all report it healthy. */
export async function startCluster (t: Test, options: ClusterOptions = {}): Promise<RedisCluster> {
  const { nodeTimeoutMs = 1000, args = [], ...rest } = options
  const own = [
    '--cluster-enabled',
    'yes',
    '--cluster-config-file',
    'nodes.conf',
    '--cluster-node-timeout',
    String(nodeTimeoutMs),
    '--cluster-require-full-coverage',
    'no',
    '--cluster-announce-ip',
    '127.0.0.1',
    ...(options.tls === true ? ['--tls-cluster', 'yes'] : [])
  ]
  const nodes = await Promise.all([0, 1, 2].map(async () => await startRedis(t, { ...rest, args: [...own, ...args] })))
  const cluster = new RedisCluster(nodes, options)
  t.teardown(() => {
    cluster.disconnect()
  })
  await cluster.meet()
  return cluster
}

/** A running cluster. */
export class RedisCluster {
  readonly nodes: readonly RedisProcess[]
  readonly #options: ClusterOptions
  #client: Cluster | undefined

  constructor (nodes: readonly RedisProcess[], options: ClusterOptions) {
    this.nodes = nodes
    this.#options = options
  }

  get hosts (): string[] {
    return this.nodes.map(node => node.host)
  }

  /** Client for the test itself. */
  get client (): Cluster {
    const { password, tls } = this.#options
    this.#client ??= new Cluster(this.nodes.map(({ port }) => ({ host: '127.0.0.1', port })), {
      clusterRetryStrategy: () => 20,
      redisOptions: { ...(password !== undefined && { password }), ...(tls === true && { tls: { ca: certificate } }) }
    }).on('error', () => {})
    return this.#client
  }

  disconnect (): void {
    this.#client?.disconnect()
    this.#client = undefined
  }

  /** Assigns the slots and introduces the nodes to each other. */
  async meet (): Promise<void> {
    const share = Math.ceil(slots / this.nodes.length)
    await Promise.all(this.nodes.map(async ({ client }, nth) => {
      // Uses ADDSLOTS, because Redis 6 has no ADDSLOTSRANGE.
      const own = Array.from({ length: Math.min(share, slots - nth * share) }, (_, at) => nth * share + at)
      await client.cluster('SET-CONFIG-EPOCH', nth + 1)
      await client.cluster('ADDSLOTS', ...own)
    }))
    for (const { client } of this.nodes) {
      for (const { port } of this.nodes) await client.cluster('MEET', '127.0.0.1', port)
    }
    await this.untilHealthy()
  }

  /** Waits until all nodes know each other and every slot. */
  async untilHealthy (): Promise<void> {
    const signs = ['cluster_state:ok', `cluster_slots_ok:${slots}`, `cluster_known_nodes:${this.nodes.length}`]
    await until(async () => {
      const views = await Promise.all(this.nodes.map(async ({ client }) => await client.cluster('INFO')))
      return views.every(view => signs.every(sign => view.includes(`${sign}\r`)))
    }, 'all nodes find the cluster healthy')
  }

  /** Kills a node; the others continue to serve their slots. */
  async killNode (nth: number): Promise<void> {
    await this.node(nth).kill()
  }

  /** Starts a node again, empty, with its former slots. */
  async restartNode (nth: number): Promise<void> {
    await this.node(nth).restart()
    await this.untilHealthy()
  }

  async slotOf (key: string): Promise<number> {
    return await this.#living().client.cluster('KEYSLOT', key)
  }

  /** Returns the node that owns the slot of a key. */
  async ownerOf (key: string): Promise<number> {
    const slot = await this.slotOf(key)
    const ranges = await this.#living().client.cluster('SLOTS')
    const owner = ranges.find(([first, last]) => first <= slot && slot <= last)?.[2]?.[1]
    return this.nodes.findIndex(({ port }) => port === Number(owner))
  }

  /** Returns the keys on all running nodes. */
  async keys (pattern = '*'): Promise<string[]> {
    return (await Promise.all(
      this.nodes.filter(node => node.isRunning).map(async ({ client }) => await client.keys(pattern))
    )).flat().sort()
  }

  /** Moves a slot with its keys under load; `half` runs while both nodes have a part. */
  async moveSlot (slot: number, from: number, to: number, half?: () => Promise<void>): Promise<void> {
    const source = this.node(from)
    const target = this.node(to)
    const [sourceId, targetId] = await Promise.all(
      [source, target].map(async ({ client }) => await client.cluster('MYID'))
    )
    await target.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(sourceId))
    await source.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(targetId))
    await half?.()
    const { password } = this.#options
    for (;;) {
      const keys = await source.client.cluster('GETKEYSINSLOT', slot, 100)
      if (keys.length === 0) break
      await source.client.call(
        'MIGRATE',
        '127.0.0.1',
        target.port,
        '',
        0,
        5000,
        ...(password === undefined ? [] : ['AUTH', password]),
        'KEYS',
        ...keys
      )
    }
    // Assigns the slot to the new owner first, so that it always has one.
    const rest = this.nodes.filter(node => node !== source && node !== target && node.isRunning)
    for (const { client } of [target, source, ...rest]) {
      await client.call('CLUSTER', 'SETSLOT', slot, 'NODE', String(targetId))
    }
  }

  node (nth: number): RedisProcess {
    const node = this.nodes[nth]
    if (node === undefined) throw new Error(`the cluster has no node ${nth}`)
    return node
  }

  #living (): RedisProcess {
    const node = this.nodes.find(each => each.isRunning)
    if (node === undefined) throw new Error('no node of the cluster runs')
    return node
  }
}

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
      async () => {
        const answer = await this.#living().client.call('SENTINEL', 'FAILOVER', name)
        // A failover ends without a new master where a busy machine delays the replica's signs of life.
        await this.untilMoved(5000)
        return answer === 'OK'
      },
      'a failover has a new master',
      60_000
    )
  }

  /** Kills the master and waits until another is announced. */
  async killMaster (): Promise<void> {
    await this.#master.kill()
    await this.untilMoved()
  }

  /** Waits until every running sentinel announces a new master and it accepts writes. */
  async untilMoved (limitMs?: number): Promise<void> {
    await until(
      async () => {
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
      },
      'another master is announced',
      limitMs
    )
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
