import { isDeepStrictEqual } from 'node:util'
import { type Config } from '../config/schema.js'
import { Fleet } from '../upstreams/fleet.js'
import { readHead } from '../chain/head-poll.js'
import { Hedges } from '../upstreams/hedges.js'
import { type Upstream } from '../cluster/control.js'
import { type GenerationOptions } from '../chain/generation-options.js'
import { within } from '../within.js'
import { type NamedUpstream, type NodesOptions, type Seat, seatOf } from './seat.js'
import { blockReader, Welcomes } from '../chain/welcomes.js'

/** The nodes of the configuration, and what keeps an eye on each. */
export interface Nodes {
  readonly fleet: Fleet
  /** What the fleet can say of its chain: a node of it that is believed. */
  readonly witness: Pick<GenerationOptions, 'readBlock' | 'readHead'>
  /** Each as it is remembered. */
  upstreams(): readonly Upstream[]
  /** Asks each where it stands; resolves when it is clear which chain it is, or no more word is to come. */
  settle(): Promise<void>
  /** Asks one where it stands, by its name. */
  ask(name: string): Promise<void>
  /** Asks each that answers where it stands, for somebody waits for that. */
  hurry(): void
  /** The chain is another one now: what each has said is forgotten, and each is asked anew. */
  forget(): void
  /** Another process has found that the chain is another one: each is compared before it is believed any further. */
  doubt(): void
  /** Asks each where it stands, and from then on whenever that is due. */
  start(): Promise<void>
  /**
   * Goes over to the nodes of another configuration; resolves when each new one was heard, or does not answer. Those
   * that stay are not touched.
   */
  exchange(config: Config): Promise<void>
  stop(): void
  close(): Promise<void>
}

// However many reads there are, nodes behind a fence are not looked at for them more often than this.
const revisitEveryMs = 250
// How long those that leave wait for the first word of those that come.
const firstWordMs = 3000

/** Builds the nodes. */
export function nodesOf (config: Config, sandboxUrl: string | undefined, options: NodesOptions): Nodes {
  const { now, tracker, releases, generations, tally } = options
  let revisitedAt = -Infinity
  let seats: readonly Seat[] = []
  const leaving = new Set<Seat>()
  const seatsOf = (of: Config): Seat[] =>
    namedIn(of, sandboxUrl).map(upstream =>
      seats.find(seat => isDeepStrictEqual(seat.upstream, upstream)) ??
        seatOf(upstream, of, options, { fleet: () => fleet, welcomes: () => welcomes, seats: () => seats })
    )
  const pollAll = async (): Promise<void> => {
    await Promise.all(seats.map(async ({ poll }) => {
      await poll.poll()
    }))
  }
  const clear = async (words: ReadonlyArray<Promise<void>>): Promise<void> => {
    for (const word of words) if (tracker.position === undefined) await word
  }
  seats = seatsOf(config)
  const fleet: Fleet = new Fleet(membersIn(seats), hedgesOf(config), releases, {
    wallClockMs: () => performance.timeOrigin + now(),
    onOldest: oldest => {
      tracker.bound(oldest)
    },
    onNobody: async () => {
      if (now() - revisitedAt < revisitEveryMs) return
      revisitedAt = now()
      await pollAll()
    }
  })
  const welcomes = new Welcomes(fleet, generations, now)
  releases.watch(name => fleet.members.some(({ isUp, node }) => isUp && node.name === name))
  return {
    fleet,
    witness: {
      readBlock: async height => fleet.witness && await blockReader(fleet.witness)(height),
      readHead: async () => {
        const { witness } = fleet
        return witness && await readHead(async question => await witness.node.ask(question))
      }
    },
    upstreams: () => seats.map(({ upstream: { url }, member }) => ({ url, isOfChain: () => member.isOfChain })),
    settle: async () => {
      await clear(seats.map(async ({ poll }) => {
        await poll.poll()
      }))
    },
    ask: async name => {
      await seats.find(({ upstream }) => upstream.name === name)?.poll.poll()
    },
    hurry: () => {
      // Who is down is looked at anyway, and who has asked for rest has it of this too; what waits for a version takes
      // no turn from other reads.
      for (const { member: { isUp, health, node }, poll } of seats) {
        if (isUp && !health.isResting && !node.budget.isTight()) poll.poll().catch(() => {})
      }
    },
    forget: () => {
      fleet.forget(tracker.chainId)
      pollAll().catch(() => {})
    },
    doubt: () => {
      for (const { member } of seats) member.doubt()
      pollAll().catch(() => {})
    },
    start: async () => {
      await clear(seats.map(async seat => {
        await seat.start()
      }))
    },
    exchange: async next => {
      const before = seats
      const after = seatsOf(next)
      // Who comes is held against those that are there already, and nobody leaves before it is known what becomes of
      // that.
      seats = [...after, ...before.filter(seat => !after.includes(seat))]
      fleet.exchange(membersIn(seats), undefined)
      await within(
        firstWordMs,
        Promise.all(after.map(async seat => {
          if (!before.includes(seat)) await seat.start()
        }))
      )
      seats = after
      fleet.exchange(membersIn(seats), hedgesOf(next))
      for (const seat of before) if (!after.includes(seat)) retire(seat).catch(() => {})
    },
    stop: () => {
      for (const { poll } of seats) poll.stop()
    },
    close: async () => {
      await Promise.all([...seats, ...leaving].map(async ({ member }) => {
        await member.node.close()
      }))
    }
  }

  function hedgesOf ({ hedge }: Config): Hedges | undefined {
    return seats.length > 1 && hedge.share > 0 && hedge.burst > 0 ? new Hedges(hedge, tally) : undefined
  }

  // What it is being asked is answered first.
  async function retire (seat: Seat): Promise<void> {
    seat.poll.stop()
    leaving.add(seat)
    await seat.member.node.retire()
    leaving.delete(seat)
  }
}

function membersIn (seats: readonly Seat[]): Array<Seat['member']> {
  return seats.map(({ member }) => member)
}

/** The upstreams of a configuration with their names; the embedded node alone where one runs. */
export function namedIn (config: Config, sandboxUrl: string | undefined): readonly NamedUpstream[] {
  if (sandboxUrl === undefined) {
    return config.upstreams.map((upstream, at) => ({ ...upstream, name: upstream.name ?? `node-${at + 1}` }))
  }
  return [{
    name: 'sandbox',
    url: sandboxUrl,
    headers: {},
    timeoutMs: 5000,
    maxConcurrent: 256,
    requestsPerSecond: null,
    caFile: null,
    ignoreCacheControl: false
  }]
}
