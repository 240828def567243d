import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { contradicts, type Tracker } from '../ledger/tracker.js'
import { Fleet } from '../nodes/fleet.js'
import { HeadPoll, readHead } from '../nodes/head-poll.js'
import { Hedges, type HedgeTally } from '../nodes/hedges.js'
import { type LiveReleases } from '../nodes/live-releases.js'
import { Member } from '../nodes/member.js'
import { LedgerNode, type NodeTally } from '../nodes/node.js'
import { type Upstream } from '../replicas/control.js'
import { type GenerationOptions } from '../replicas/generation-options.js'
import { type Generations } from '../replicas/generations.js'
import { stateLog } from './state-log.js'
import { blockReader, Welcomes } from './welcomes.js'

/** What nodes are built from. */
export interface NodesOptions {
  readonly now: () => number
  readonly tracker: Tracker
  readonly releases: LiveReleases
  readonly tally: NodeTally & HedgeTally
  readonly log: Logger
  /** Who decides whether a node is believed; asked only once nodes are. */
  readonly generations: () => Generations
}

/** The nodes of the configuration, and what keeps an eye on each. */
export interface Nodes {
  readonly fleet: Fleet
  /** What the fleet can say of its chain: a node of it that is believed. */
  readonly witness: Pick<GenerationOptions, 'readBlock' | 'readHead'>
  /** Each as it is remembered. */
  readonly upstreams: readonly Upstream[]
  /** Asks each where it stands; resolves when it is clear which chain it is, or no more word is to come. */
  settle (): Promise<void>
  /** The chain is another one now: what each has said is forgotten, and each is asked anew. */
  forget (): void
  /** Asks each where it stands, and from then on whenever that is due. */
  start (): Promise<void>
  stop (): void
  close (): Promise<void>
}

const mega = 1024 * 1024
// However many reads there are, nodes behind a fence are not looked at for them more often than this.
const revisitEveryMs = 250
// A node that changes its chain behind an open connection is found out by then.
const comparedEveryMs = 10_000

/** Builds the nodes. */
export function nodesOf (config: Config, sandboxUrl: string | undefined, options: NodesOptions): Nodes {
  const { now, tracker, releases, log, generations } = options
  const { pollMs } = config.head
  const upstreams = upstreamsOf(config, sandboxUrl)
  const members = upstreams.map((upstream, at) => memberOf(upstream, at))
  const isHedging = members.length > 1 && config.hedge.share > 0 && config.hedge.burst > 0
  let revisitedAt = -Infinity
  const fleet: Fleet = new Fleet(members, releases, {
    wallClockMs: () => performance.timeOrigin + now(),
    hedges: isHedging ? new Hedges(config.hedge, options.tally) : undefined,
    onOldest: oldest => { tracker.bound(oldest) },
    onNobody: async () => {
      if (now() - revisitedAt < revisitEveryMs) return
      revisitedAt = now()
      await pollAll()
    }
  })
  const welcomes = new Welcomes(fleet, generations, now)
  releases.watch(name => members.some(({ isUp, node }) => isUp && node.name === name))
  const polls = members.map(pollOf)
  const firstWords: Array<Promise<void>> = []
  const pollAll = async (): Promise<void> => { await Promise.all(polls.map(async poll => { await poll.poll() })) }
  return {
    fleet,
    witness: {
      readBlock: async height => fleet.witness && await blockReader(fleet.witness)(height),
      readHead: async () => {
        const { witness } = fleet
        return witness && await readHead(async question => await witness.node.ask(question))
      }
    },
    upstreams: members.map((member, at) => ({ url: upstreams[at]?.url ?? '', isOfChain: () => member.isOfChain })),
    settle: async () => {
      const polled = polls.map(async poll => { await poll.poll() })
      for (const word of polled) if (tracker.position === undefined) await word
    },
    forget: () => {
      fleet.forget(tracker.chainId)
      pollAll().catch(() => {})
    },
    start: async () => {
      firstWords.push(...polls.map(async poll => { await poll.start() }))
      for (const word of firstWords) if (tracker.position === undefined) await word
    },
    stop: () => { for (const poll of polls) poll.stop() },
    close: async () => { await Promise.all(members.map(async ({ node }) => { await node.close() })) }
  }

  function memberOf ({ name, ...upstream }: UpstreamConfig, at: number): Member {
    const onLost = (): void => { if (member.lost() && upstreams.length > 1) polls[at]?.poll().catch(() => {}) }
    const node = new LedgerNode({ ...upstream, name: name ?? `node-${at + 1}`, onLost, maxGatheredBytes: config.cache.maxEntryMb * mega, now }, options.tally)
    const member: Member = new Member(node, {
      now,
      hasPeers: upstreams.length > 1,
      recognises: async stamped => await welcomes.recognises(member, stamped, true),
      isStrange: ({ position }) => tracker.position !== undefined && (position.chainId !== tracker.chainId || contradicts(position, tracker.position)),
      welcome: async (stamped, wasAway) => {
        // Where nodes disagree at the start, the first in the order of the configuration that answers in time decides.
        if (members.every(({ isBelieved }) => !isBelieved)) await Promise.all(polls.slice(0, at).map(async (poll, earlier) => { if (members[earlier]?.isUnheard === true) await (firstWords[earlier] ?? poll.poll()) }))
        return await welcomes.welcome(member, stamped, wasAway)
      }
    })
    return member
  }

  function pollOf (member: Member): HeadPoll {
    const tellState = stateLog(member, log)
    let comparedAt = now()
    return new HeadPoll(async question => await fleet.probe(member, question), tracker, {
      pollMs,
      now,
      // One that has asked for rest has it of this too, as far as its release may wait.
      isDue: () => !member.health.isResting && (!member.isUp || !member.isBelieved || member.standing.ageMs >= pollMs),
      onState: state => {
        if (state === 'unanswered' && member.health.isUp && !member.health.isResting) member.isSilent()
        tellState()
      },
      onRelease: release => {
        member.node.runs(release)
        releases.saw(release, member.node.name)
      },
      onTick: () => {
        if (now() - comparedAt >= comparedEveryMs) {
          comparedAt = now()
          member.recheck().catch(() => {})
        }
        if (member === fleet.witness && member.isBelieved && member.standing.stamped !== undefined) generations().renew(member.standing.stamped).catch(() => {})
        tellState()
      }
    })
  }
}

type UpstreamConfig = Config['upstreams'][number]

function upstreamsOf (config: Config, sandboxUrl: string | undefined): readonly UpstreamConfig[] {
  if (config.upstreams.length > 0) return config.upstreams
  return [{ name: 'sandbox', url: sandboxUrl ?? '', headers: {}, timeoutMs: 5000, maxConcurrent: 256, requestsPerSecond: null, caFile: null, ignoreCacheControl: false }]
}
