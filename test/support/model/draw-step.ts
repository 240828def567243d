import { type Fault, type FaultScope } from '#sandbox'
import { followModeOf } from '../tail.js'
import { type Chain } from './chain.js'
import { continued, drawRead, neighbouringRead, type ReadSource } from './draw-read.js'
import { defaultSetting, type FuzzSetting, type FuzzStep, type PurgedRead, type WorldChange } from './fuzz-case.js'
import { mutated } from './mutate.js'
import { type RawResponse } from './raw-connections.js'
import { blockRead, depositReads, type ReadSpec } from './read-spec.js'
import { drawStyle, plainRequest, renderRequest } from './render-request.js'
import { headerOf, type ModelRequest, parsedReadOf } from './request.js'
import { type SeededRandom } from './seeded-random.js'
import { type FaultyUpstream } from './upstream.js'

type Requests = Extract<FuzzStep, { requests: unknown }>

const newReads = 3
const mostRequests = 6
const failures: readonly [Fault, ...Fault[]] = [
  { kind: 'reset' },
  { kind: 'cutShort' },
  { kind: 'cutShort', chunked: true },
  { kind: 'garbage' },
  { kind: 'error', code: 'internal_error' },
  { kind: 'error', code: 'internal_error', status: 503 },
  { kind: 'rateLimited', retryAfter: '1' },
  // Responses of status 200 that cannot be true.
  { kind: 'html' },
  { kind: 'panic200' },
  { kind: 'headers', remove: ['x-aptos-ledger-version'] }
]

/** Draws the steps of a case: few reads, in many variants, in an order that a cache could confuse. */
export class StepDraw {
  readonly #chance: SeededRandom
  readonly #chain: Chain
  readonly #upstreams: readonly FaultyUpstream[]
  readonly #setting: FuzzSetting
  readonly #reads: ReadSpec[]
  readonly #cursors: string[] = []
  readonly #heads: bigint[] = []
  /** Last ETag of each target. */
  readonly #tags = new Map<string, string>()
  #previous: ModelRequest | undefined
  #last: Requests | undefined
  #hasChanged = false

  constructor (chance: SeededRandom, chain: Chain, upstreams: readonly FaultyUpstream[], setting: FuzzSetting) {
    this.#chance = chance
    this.#chain = chain
    this.#upstreams = upstreams
    this.#setting = setting
    this.#reads = Array.from({ length: newReads }, () => drawRead(chance, this.#source))
    // Adds a listing with several pages, which are rare among other reads.
    if (setting.pinsPages) {
      const [account, limit] = [chance.pick(['cafe', '42', '1']), chance.integerBetween(1, 2)]
      this.#reads.push({ kind: 'modules', form: 'json', account, limit, cursor: undefined, version: undefined })
    }
    if (setting.followMode === 'on') this.#reads.push(blockRead, chance.pick(depositReads))
  }

  /** Draws a step, mostly requests. */
  next (): FuzzStep {
    const { version } = this.#chain.current.archive.head
    if (this.#heads.at(-1) !== version) this.#heads.push(version)
    const chance = this.#chance
    const draw = chance.next()
    // Index of one of two varves.
    const to = chance.integerBelow(2)
    // Repeats requests after each change, which must confuse no cache, and at the other varve.
    if (this.#last !== undefined && (this.#hasChanged || draw < 0.22)) {
      const { requests, to = 0 } = this.#last
      const isAfterChange = this.#hasChanged
      this.#hasChanged = false
      return { requests, to: isAfterChange ? to : 1 - to }
    }
    if (draw < 0.35) return this.#change(this.#chain.eras.length === 1 && this.#last?.requests.some(isHistory) === true)
    if (draw < 0.38) return { purge: chance.happens(1 / 3) ? 'all' : this.#purged(), to }
    if (draw < 0.42) return this.#operation(to)
    if (draw < 0.48 && this.#setting.isTroubled) return { settle: true }
    const meanwhile = chance.happens(0.1) ? this.#change() : undefined
    this.#last = {
      requests: Array.from({ length: chance.integerBetween(1, mostRequests) }, () => this.#request()),
      to,
      ...(meanwhile !== undefined && { meanwhile })
    }
    return this.#last
  }

  /** Records responses, whose cursors and ETags later requests use. */
  observe (step: FuzzStep, responses: readonly RawResponse[]): void {
    if (!('requests' in step)) return
    for (const [at, { headers }] of responses.entries()) {
      const sent = step.requests[at]
      if (headers['x-node-cursor'] !== undefined) this.#cursors.push(headers['x-node-cursor'])
      if (headers['etag'] !== undefined && sent !== undefined) this.#tags.set(sent.target, headers['etag'])
    }
  }

  get #source (): ReadSource {
    const { archive } = this.#chain.current
    return {
      era: this.#chain.current,
      windows: this.#upstreams.map(({ state: { oldest, height } }) => ({
        oldest: archive.block(Math.min(oldest, archive.height)).firstVersion,
        head: archive.position(Math.min(height, archive.height)).version
      })),
      latestShare: this.#setting.followMode === 'on' ? 0.7 : 0.2,
      cursors: this.#cursors,
      heads: this.#heads
    }
  }

  #change (isFirst = false): WorldChange {
    const chance = this.#chance
    const { isTroubled, isShared } = this.#setting
    this.#hasChanged = true
    // Another, longer chain differs in its blocks alone from what varves share of ours.
    if (isFirst && isTroubled && isShared) return { reset: chance.integerBetween(5, 40) }
    if (isTroubled && chance.happens(0.6)) return this.#trouble()
    const draw = chance.next()
    if (draw < 0.6) return { grow: chance.pick([1, 1, 1, 3]) }
    if (draw < 0.8) return { prune: chance.integerBetween(1, 12), ...this.#oneOf() }
    // Prunes most of the history, so that cached versions are below the window.
    return draw < 0.86 ? { grow: 41 } : draw < 0.9 ? { prune: 150, ...this.#oneOf() } : { release: 'next' }
  }

  /** Picks one of several upstreams, or all of them. */
  #oneOf (): { upstream?: number } {
    const count = this.#upstreams.length
    return count === 1 || this.#chance.happens(0.3) ? {} : { upstream: this.#chance.integerBelow(count) }
  }

  /** Draws a fault, or the end of one as likely, so that upstreams are rarely all down. */
  #trouble (): WorldChange {
    const chance = this.#chance
    const upstream = chance.integerBelow(this.#upstreams.length)
    if (this.#upstreams[upstream]?.isTroubled === true && chance.happens(0.7)) return { upstream, happens: 'recover' }
    const draw = chance.next()
    if (draw < 0.25) return { upstream, happens: 'kill' }
    if (draw < 0.28) return { upstream, happens: 'freeze' }
    if (draw < 0.34) return { upstream, happens: 'stall' }
    if (draw < 0.46) return { upstream, lag: chance.integerBetween(1, 12) }
    if (draw < 0.52) return { upstream, happens: 'restore' }
    if (draw < 0.58) return { upstream, release: 'next' }
    if (draw < 0.74) {
      return { reset: chance.happens(0.2) ? chance.integerBetween(5, 40) : -chance.integerBetween(40, 120) }
    }
    const fault = chance.pick(failures)
    return {
      upstream,
      fault: {
        ...fault,
        ...chance.pick<FaultScope>([{}, { share: 0.5 }, { match: 'account_modules' }, { match: 'block_by_height' }])
      }
    }
  }

  #operation (to: number): FuzzStep {
    const chance = this.#chance
    const { isShared, workers } = this.#setting
    const draw = chance.next()
    if (isShared && draw < 0.4) return { redis: chance.pick(['flush', 'cut', 'restart']) }
    if (workers > 1 && draw < 0.6) return { killWorker: true }
    return draw < 0.7
      ? { reload: true, to }
      : { restart: true, to, ...(chance.happens(0.5) && { meanwhile: this.#change() }) }
  }

  #purged (): PurgedRead {
    const { method, target, body } = plainRequest(this.#read())
    return { method, url: target, ...(body !== undefined && { body }) }
  }

  // Now and then a new read or a later page, since the head and the listings move.
  #read (): ReadSpec {
    const chance = this.#chance
    const at = chance.integerBelow(this.#reads.length)
    const known = this.#reads[at]
    if (known === undefined || chance.happens(0.05)) return drawRead(chance, this.#source)
    const isListing = known.kind === 'modules' && known.version === undefined
    if (!isListing || this.#cursors.length === 0 || chance.happens(0.7)) return known
    const later = continued(known, chance, this.#source)
    this.#reads[at] = later
    return later
  }

  #request (): ModelRequest {
    const chance = this.#chance
    const read = this.#read()
    const chosen = chance.happens(0.2) ? neighbouringRead(read, chance, this.#source) : read
    const rendered = renderRequest(
      { ...chosen, form: chance.happens(0.25) ? 'bcs' : 'json' },
      drawStyle(chance)
    )
    const draw = chance.next()
    const mutations = draw < 0.7 ? 0 : draw < 0.93 ? 1 : 2
    let sent = rendered
    for (let nth = 0; nth < mutations; nth++) sent = mutated(sent, this.#previous ?? sent, chance)
    this.#previous = rendered
    return chance.happens(0.1) ? this.#withLine(sent) : sent
  }

  #withLine (sent: ModelRequest): ModelRequest {
    const { version } = this.#chain.current.archive.head
    const tags = [...this.#tags.values()]
    const [name, value] = this.#chance.pick([
      ['if-none-match', this.#tags.get(sent.target)],
      ['if-none-match', tags.slice(-3).join(', ') || undefined],
      ['if-none-match', '*'],
      ['x-varve-min-ledger-version', String(version)],
      ['x-varve-min-ledger-version', `0${version - (version < 5n ? version : 5n)}`],
      ['x-varve-min-ledger-version', String(version + 1n)]
    ])
    return name === undefined || value === undefined || headerOf(sent, name) !== undefined
      ? sent
      : { ...sent, headers: [...sent.headers, [name, value]] }
  }
}

const isHistory = (sent: ModelRequest): boolean => parsedReadOf(sent)?.requestedVersion !== undefined

/** Draws options of upstreams, half of them the defaults; those of varve take turns, so that short runs have all. */
export function drawSetting (chance: SeededRandom, seed: number): FuzzSetting {
  const memoryKb = seed % 4 === 1 ? 20 : undefined
  const workers = seed % 12 === 5 ? 2 : 1
  return {
    ...defaultSetting,
    ...(chance.happens(0.5) && {
      // Puts the limits of doubles and of signed integers inside the window.
      startVersion: chance.pick([
        '0',
        '9007199254739800',
        '9223372036854774600',
        '9223372036854775808',
        '18446744073709547000'
      ]),
      blocks: chance.pick([300, 241]),
      prunedBlocks: chance.pick([0, 30, 30, 60]),
      eventsMax: chance.pick([100, 10]),
      modulesPage: chance.pick([9999, 2]),
      blockTransactionsMax: chance.pick([10_000, 3]),
      prunedEvents: chance.pick(['gone410', 'error500', 'empty', 'gaps', 'served']),
      blockBcs: chance.pick(['option', 'bare']),
      microCacheMs: chance.pick([0, 500])
    }),
    upstreams: Number(process.env['FLEET_NODES'] ?? chance.pick([1, 1, 2, 3])),
    isTroubled: seed % 2 === 1,
    // Workers find each other by their primary process.
    isShared: chance.happens(0.5) && workers === 1,
    hasDisk: chance.happens(0.3),
    workers,
    pinsPages: seed % 3 === 0,
    followMode: followModeOf(seed),
    hasFastPath: seed % 4 !== 0,
    auditShare: chance.pick([0.001, 1]),
    ...(memoryKb !== undefined && { memoryKb })
  }
}
