import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { contradicts, type Tracker } from '../chain/tracker.js'
import { type Fleet } from '../upstreams/fleet.js'
import { HeadPoll } from '../chain/head-poll.js'
import { type HedgeTally } from '../upstreams/hedges.js'
import { type LiveReleases } from '../upstreams/live-releases.js'
import { Member } from '../upstreams/member.js'
import { LedgerNode, type NodeTally, type Transport } from '../upstreams/node.js'
import { type Generations } from '../chain/generations.js'
import { stateLog } from './state-log.js'
import { type Welcomes } from '../chain/welcomes.js'

/** What nodes are built from. */
export interface NodesOptions {
  readonly now: () => number
  readonly tracker: Tracker
  readonly releases: LiveReleases
  readonly tally: NodeTally & HedgeTally
  readonly log: Logger
  /** Who decides whether a node is believed; asked only once nodes are. */
  readonly generations: () => Generations
  /** By whom a node is asked where it stands, if not by this process itself. */
  readonly asksForAll?: ((upstream: NamedUpstream) => Transport) | undefined
}

/** One node as it is configured, its name being given. */
export type NamedUpstream = Config['upstreams'][number] & { readonly name: string }

/** A node of the configuration, and what keeps an eye on it. */
export interface Seat {
  readonly upstream: NamedUpstream
  readonly member: Member
  readonly poll: HeadPoll
  /** Begins to ask it where it stands; resolves with its first word, be it that there is none. */
  start(): Promise<void>
  /** The first word, once it was asked for; else that of a question of its own. */
  firstWord(): Promise<void>
}

/** What a seat has to know of the others. */
export interface Table {
  readonly fleet: () => Fleet
  readonly welcomes: () => Welcomes
  /** All of them in the order of the configuration. */
  readonly seats: () => readonly Seat[]
}

const mega = 1024 * 1024
// A node that changes its chain behind an open connection is found out by then.
const comparedEveryMs = 10_000

/** Builds what asks one node, and looks after it. */
export function seatOf (
  upstream: NamedUpstream,
  { cache, head: { pollMs } }: Config,
  options: NodesOptions,
  table: Table
): Seat {
  const { now, tracker, releases, tally, log, generations } = options
  const { name } = upstream
  const hasPeers = (): boolean => table.seats().length > 1
  let first: Promise<void> | undefined
  const onLost = (): void => {
    if (member.lost() && hasPeers()) poll.poll().catch(() => {})
  }
  const node = new LedgerNode({
    ...upstream,
    onLost,
    maxGatheredBytes: cache.maxEntryMb * mega,
    now,
    wallClockMs: () => performance.timeOrigin + now(),
    ...(options.asksForAll && { probes: options.asksForAll(upstream) })
  }, tally)
  const member: Member = new Member(node, {
    now,
    hasPeers,
    recognises: async stamped => await table.welcomes().recognises(member, stamped, true),
    isStrange: ({ position }) =>
      tracker.position !== undefined &&
      (position.chainId !== tracker.chainId || contradicts(position, tracker.position)),
    welcome: async (stamped, wasAway) => {
      const seats = table.seats()
      const earlier = seats.slice(0, seats.indexOf(seat))
      // Where nodes disagree at the start, the first in the order of the configuration that answers in time decides.
      if (seats.every(other => !other.member.isBelieved)) {
        await Promise.all(earlier.map(async other => {
          if (other.member.isUnheard) await other.firstWord()
        }))
      }
      return await table.welcomes().welcome(member, stamped, wasAway)
    }
  })
  const tellState = stateLog(member, log)
  let comparedAt = now()
  const poll = new HeadPoll(async question => await table.fleet().probe(member, question), tracker, {
    pollMs,
    now,
    // One that has asked for rest has it of this too, as far as its release may wait.
    isDue: () => !member.health.isResting && (!member.isUp || !member.isBelieved || member.standing.ageMs >= pollMs),
    onState: state => {
      if (state === 'unanswered' && member.health.isUp && !member.health.isResting) member.isSilent()
      tellState()
    },
    onRelease: release => {
      node.runs(release)
      releases.saw(release, name)
    },
    onTick: () => {
      if (now() - comparedAt >= comparedEveryMs) {
        comparedAt = now()
        member.recheck().catch(() => {})
      }
      if (member === table.fleet().witness && member.isBelieved && member.standing.stamped !== undefined) {
        generations().renew(member.standing.stamped).catch(() => {})
      }
      tellState()
    }
  })
  const seat: Seat = {
    upstream,
    member,
    poll,
    start: async () => {
      await (first = poll.start())
    },
    firstWord: async () => {
      await (first ?? poll.poll())
    }
  }
  return seat
}
