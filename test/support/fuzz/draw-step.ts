import { followModeOf } from '../tail.js'
import { type Ledger } from '../../../sandbox/ledger.js'
import { type Era } from '../model/chain.js'
import { continued, drawRead, type ReadSource } from '../model/draw-read.js'
import { neighbouringRead } from '../model/neighbouring-read.js'
import { type ReadSpec } from '../model/read-spec.js'
import { drawStyle, plainRequest, renderRequest } from '../model/render-request.js'
import { headerOf, type ModelRequest } from '../model/request.js'
import { type SeededRandom } from '../model/seeded-random.js'
import { defaultSetting, type FuzzSetting, type FuzzStep, type LedgerChange, type ReleaseUpgrade } from './fuzz-case.js'
import { mutated } from './mutate.js'
import { type RawResponse } from './raw-connections.js'

type Requests = Extract<FuzzStep, { requests: unknown }>

const newReads = 3
const mostRequests = 6

/** Draws the steps of a case: few reads, in many variants, in an order that a cache could confuse. */
export class StepDraw {
  readonly #chance: SeededRandom
  readonly #ledger: Ledger
  readonly #era: Era
  readonly #reads: ReadSpec[]
  readonly #cursors: string[] = []
  readonly #heads: bigint[] = []
  /** Last ETag of each target. */
  readonly #tags = new Map<string, string>()
  #previous: ModelRequest | undefined
  #last: Requests | undefined

  constructor (chance: SeededRandom, ledger: Ledger, era: Era, { pinsPages }: FuzzSetting) {
    this.#chance = chance
    this.#ledger = ledger
    this.#era = era
    this.#reads = Array.from({ length: newReads }, () => drawRead(chance, this.#source))
    // Adds a listing with several pages, which are rare among other reads.
    if (pinsPages) {
      const [account, limit] = [chance.pick(['cafe', '42', '1']), chance.integerBetween(1, 2)]
      this.#reads.push({ kind: 'modules', form: 'json', account, limit, cursor: undefined, version: undefined })
    }
  }

  /** Draws a step, mostly requests. */
  next (): FuzzStep {
    const { version } = this.#ledger.head
    if (this.#heads.at(-1) !== version) this.#heads.push(version)
    const chance = this.#chance
    const draw = chance.next()
    // Index of one of two varves.
    const to = chance.integerBelow(2)
    if (draw < 0.22 && this.#last !== undefined) {
      return { requests: this.#last.requests, to: 1 - (this.#last.to ?? 0) }
    }
    if (draw < 0.33) return this.#change()
    if (draw < 0.35) return { release: 'next' }
    if (draw < 0.38) return { purge: chance.happens(1 / 3) ? 'all' : this.#purged(), to }
    const meanwhile = draw < 0.44 ? chance.happens(0.25) ? { release: 'next' } as const : this.#change() : undefined
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
    const { oldest, head } = this.#ledger
    return {
      era: this.#era,
      windows: [{ oldest: oldest.version, head: head.version }],
      isWild: true,
      cursors: this.#cursors,
      heads: this.#heads
    }
  }

  #change (): LedgerChange | ReleaseUpgrade {
    const chance = this.#chance
    const draw = chance.next()
    if (draw < 0.66) return { grow: chance.integerBetween(1, 4) }
    if (draw < 0.88) return { prune: chance.integerBetween(1, 12) }
    // Prunes most of the history, so that cached versions are below the window.
    return draw < 0.94 ? { grow: 41 } : { prune: 150 }
  }

  #purged (): Exclude<Extract<FuzzStep, { purge: unknown }>['purge'], 'all'> {
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
      drawStyle(chance, true)
    )
    const draw = chance.next()
    const mutations = draw < 0.7 ? 0 : draw < 0.93 ? 1 : 2
    let sent = rendered
    for (let nth = 0; nth < mutations; nth++) sent = mutated(sent, this.#previous ?? sent, chance)
    this.#previous = rendered
    return chance.happens(0.1) ? this.#withLine(sent) : sent
  }

  #withLine (sent: ModelRequest): ModelRequest {
    const { version } = this.#ledger.head
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

/** Draws options of an upstream, half of them the defaults; those of varve take turns, so that short runs have all. */
export function drawSetting (chance: SeededRandom, seed: number): FuzzSetting {
  const memoryKb = seed % 4 === 1 ? 20 : undefined
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
      prunedBlocks: chance.pick([0, 30, 30, 150]),
      eventsMax: chance.pick([100, 10]),
      modulesPage: chance.pick([9999, 2]),
      blockTransactionsMax: chance.pick([10_000, 3]),
      prunedEvents: chance.pick(['gone410', 'error500', 'empty', 'gaps', 'served']),
      blockBcs: chance.pick(['option', 'bare']),
      microCacheMs: chance.pick([0, 500])
    }),
    isShared: chance.happens(0.5),
    pinsPages: seed % 3 === 0,
    followMode: followModeOf(seed),
    hasFastPath: seed % 4 !== 0,
    auditShare: chance.pick([0.001, 1]),
    ...(memoryKb !== undefined && { memoryKb })
  }
}
