import { Cluster } from 'ioredis'
import { type Test } from 'tap'
import { certificate } from './certificate.js'
import { type RedisProcess } from './redis-process.js'
import { type RedisOptions, startRedis } from './redis-server.js'
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
