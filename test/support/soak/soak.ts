import { Agent } from 'node:http'
import { type Test } from 'tap'
import { type Sandbox, startSandbox } from '#sandbox'
import { sendRequest, type TestResponse } from '../client.js'
import { type FollowMode } from '../tail.js'
import { type SeededRandom } from '../model/seeded-random.js'
import { Tally } from '../model/tally.js'
import { startVarveProcess, type VarveProcess } from './varve-process.js'

/** Micro-cache time and age of latest reads. */
const stateMs = 250
const blockMs = 200
const nodeCount = 3
const blocksAtStart = 1000
/** Token for changing calls of the admin listener. */
export const token = 's0ak'

/** Differences between runs. */
export interface SoakOptions {
  readonly seed: number
  readonly followMode: FollowMode
  readonly redisUrl: string
  /** Null turns the disk tier off. */
  readonly diskPath: string | null
}

/** A read; an `@` in it stands for the version, without which it is a latest read. */
export interface SoakRead {
  readonly target: string
  readonly body?: string | undefined
  readonly accept: string
}

// Versions that every upstream has reached, even one that lags.
const [leastBehind, mostBehind] = [400, 1500]
const mostTruths = 1000
const templates: ReadonlyArray<readonly [string, string?]> = [
  ['/v1/accounts/0x1/modules?limit=3&ledger_version=@'],
  ['/v1/accounts/0xcafe/modules?limit=2&ledger_version=@'],
  ['/v1/accounts/0x1/resource/0x1::block::BlockResource?ledger_version=@'],
  ['/v1/accounts/0xcafe/balance/0x1::aptos_coin::AptosCoin?ledger_version=@'],
  ['/v1/tables/0x5eed/item?ledger_version=@', '{"key_type":"u64","value_type":"0x42::shop::Item","key":"7"}'],
  ['/v1/view?ledger_version=@', '{"function":"0x1::timestamp::now_microseconds","type_arguments":[],"arguments":[]}'],
  ['/v1/blocks/by_version/@'],
  ['/v1/transactions/by_version/@'],
  ['/v1/transactions?start=@&limit=3']
]

/** A varve process, the nodes behind it, and a node without faults, whose answers are the truth. */
export class Soak {
  readonly program: VarveProcess
  readonly nodes: readonly Sandbox[]
  readonly tally = new Tally()
  /** Reloads so far; each may close connections. */
  reloads = 0
  /** True while faults are injected. */
  isTroubled = false
  /** Highest position that a client has seen. */
  served = 0n
  readonly #truth: Sandbox
  readonly #agent = new Agent({ keepAlive: true })
  readonly #truths = new Map<string, Promise<TestResponse>>()
  readonly #options: SoakOptions

  private constructor (program: VarveProcess, nodes: readonly Sandbox[], truth: Sandbox, options: SoakOptions) {
    this.program = program
    this.nodes = nodes
    this.#truth = truth
    this.#options = options
  }

  static async start (t: Test, options: SoakOptions): Promise<Soak> {
    const chain = { seed: options.seed % 100_000 * 100, blocks: blocksAtStart, prunedBlocks: 0, blockMs: 0 }
    const sandboxes = await Promise.all(Array.from({ length: 1 + nodeCount }, async () => await startSandbox(chain)))
    const [truth, ...nodes] = sandboxes
    if (truth === undefined) throw new Error('no node')
    const program = await startVarveProcess(t, configOf(nodes, options, 0))
    const soak = new Soak(program, nodes, truth, options)
    // The true node grows first, so that no upstream is ahead of it.
    const growth = setInterval(() => {
      for (const { ledger } of sandboxes) ledger.grow()
    }, blockMs)
    t.teardown(async () => {
      clearInterval(growth)
      soak.#agent.destroy()
      for (const sandbox of sandboxes) await sandbox.close()
    })
    return soak
  }

  /** Highest version that any node has. */
  get head (): bigint {
    return this.#truth.ledger.head.version
  }

  /** Draws a read of history, or of the head. */
  draw (chance: SeededRandom, isLatest = false): SoakRead {
    const accept = chance.happens(0.2) ? 'application/x-bcs' : 'application/json'
    // All but the last three can do without a version.
    const [template, body] = templates[chance.integerBelow(templates.length - (isLatest ? 3 : 0))] ?? ['/v1/info']
    const version = this.head - BigInt(chance.integerBetween(leastBehind, mostBehind))
    return { target: isLatest ? template : template.replace('@', String(version)), body, accept }
  }

  /** Returns a block of some megabytes, which is too large for the cache. */
  get largeRead (): SoakRead {
    const { firstVersion } = this.#truth.ledger.block(900)
    return { target: `/v1/blocks/by_version/${firstVersion}?with_transactions=true`, accept: 'application/json' }
  }

  /** Returns what the chain says, at a version if the read names none. */
  async truthOf ({ target, body, accept }: SoakRead, version: string): Promise<TestResponse> {
    const path = target.replace('@', version)
    const name = `${accept} ${path}`
    const known = this.#truths.get(name)
    if (known !== undefined) return await known
    if (this.#truths.size > mostTruths) this.#truths.clear()
    const truth = sendRequest(this.#truth.url, path, {
      headers: { accept, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body }),
      agent: this.#agent
    })
    this.#truths.set(name, truth)
    return await truth
  }

  /** Reloads varve with another configuration. */
  async reload (round: number): Promise<void> {
    this.reloads++
    await this.program.reload(configOf(this.nodes, this.#options, round))
    this.reloads++
  }
}

/** Returns a configuration with small limits and lifetimes; each round gives another one. */
function configOf (
  nodes: readonly Sandbox[],
  { followMode, redisUrl, diskPath }: SoakOptions,
  round: number
): object {
  // Some reloads stop following, and the next one begins again.
  const mode = round % 5 === 4 ? 'off' : followMode
  return {
    listen: '127.0.0.1:0',
    admin: { listen: '127.0.0.1:0', token },
    head: { pollMs: 1000 },
    // Limits slots, so that bursts queue at slow upstreams; sometimes an upstream is replaced under its name.
    upstreams: nodes.map(({ url }, at) => ({
      name: `node-${at}`,
      url,
      timeoutMs: at === round % 5 ? 1001 : 1000,
      maxConcurrent: 8,
      requestsPerSecond: 500
    })),
    hedge: { share: 0.1, afterMs: 100 + round % 3 },
    cache: {
      memory: { maxMb: 1 },
      // Room for some hundred entries, so that the disk evicts too.
      disk: { path: diskPath, maxGb: 0.001 },
      maxEntryMb: 1,
      redis: { url: redisUrl, timeoutMs: 200 }
    },
    follow: { mode, maxAgeMs: stateMs, verify: 0.2 },
    latest: { stateMs: mode === 'on' ? 0 : stateMs, infoMs: 1000, gasMs: 500 },
    audit: { share: 0.2, followedShare: 0.2 },
    downstream: { cacheControl: round % 2 === 0 ? 'revalidate' : 'immutable' }
  }
}
