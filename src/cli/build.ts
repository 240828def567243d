import { type Logger } from 'pino'
import { Compressor } from '../cache/compressor.js'
import { Memory } from '../cache/memory.js'
import { GatheringFlight, SingleFlight } from '../cache/single-flight.js'
import { Spellings } from '../cache/spellings.js'
import { StreamEnds } from '../cache/stream-ends.js'
import { type Config } from '../config/schema.js'
import { Tracker } from '../ledger/tracker.js'
import { Metrics } from '../metrics.js'
import { readFinalBlock } from '../nodes/final-block.js'
import { HeadPoll, type PollState, readHead } from '../nodes/head-poll.js'
import { LiveReleases } from '../nodes/live-releases.js'
import { LedgerNode } from '../nodes/node.js'
import { OneNode } from '../nodes/one-node.js'
import { Forgetting } from '../proxy/forgetting.js'
import { type KnownReads } from '../proxy/known-read.js'
import { isForMany, isShareable } from '../proxy/outcomes.js'
import { type Parts, type ProxySettings } from '../proxy/parts.js'
import { Pruning } from '../proxy/pruning.js'
import { Renewals } from '../proxy/renewals.js'
import { Generations } from '../replicas/generations.js'
import { within } from '../within.js'
import { keepHeapLean } from './lean-heap.js'
import { type Sharing, type sharingOf } from './sharing.js'

/** Everything below the listeners. */
export interface Built {
  readonly parts: Parts
  readonly known: KnownReads
  readonly metrics: Metrics
  readonly node: LedgerNode
  readonly poll: HeadPoll
  readonly generations: Generations
  readonly sharing: Sharing | undefined
}

const mega = 1024 * 1024
const recallAfterMs = 1000
// What the memory of spellings may take beside that of answers.
const spellingShare = 1 / 8
const minSpellingBytes = 4 * mega

/** Builds every part that a read passes through, and what keeps them true; `share` where a Redis is configured. */
export function build (config: Config, sandboxUrl: string | undefined, log: Logger, share: typeof sharingOf | undefined): Built {
  const metrics = new Metrics()
  const now = (): number => performance.now()
  const memory = new Memory(config.cache.memory.maxMb * mega, metrics, now, keepHeapLean)
  const forgetting = new Forgetting(memory)
  const releases = new LiveReleases(now)
  const { redis } = config.cache
  const tracker = new Tracker(config.chainId ?? undefined, now, {
    onReset: stamped => {
      metrics.reset()
      log.warn('the chain was reset: a new generation of keys begins')
      generations.wasReset(stamped)
    },
    onAhead: () => { sharing?.tellHead() }
  }, share !== undefined)
  const node = nodeOf(config, sandboxUrl, now, () => { nodes.lost() }, metrics)
  const sharing = share?.(redis, { upstreams: [config.upstreams[0]?.url ?? sandboxUrl ?? ''], tracker, releases, forgetting, metrics, log, now })
  const generations: Generations = new Generations({
    tracker,
    control: sharing?.control,
    readBlock: async height => await readFinalBlock(async question => await node.ask(question), height),
    readHead: async () => await readHead(async question => await node.ask(question)),
    now,
    events: {
      onGeneration: generation => {
        forgetting.forgetAll()
        // What waits bears the number of a generation that may be another chain's.
        sharing?.store.dropAll()
        log.info({ generation }, 'keys are of this generation')
        sharing?.look().catch(() => {})
      },
      onReplaced: () => {
        // It may be the one that is still on the old chain.
        nodes.doubt()
        metrics.reset()
        log.warn('another replica has noticed that the chain was reset')
      },
      onRival: generation => { log.error({ generation }, 'other replicas share this Redis and read another chain of the same name: give each chain a keyPrefix of its own') }
    }
  })
  const nodes: OneNode = new OneNode(node, { releases, now, welcome: async stamped => await generations.welcome(stamped) })
  const poll = new HeadPoll(async question => await nodes.ask(question), tracker, {
    pollMs: config.head.pollMs,
    now,
    onState: logChanges(node.name, log),
    onHead: stamped => { generations.renew(stamped).catch(() => {}) },
    onRelease: release => { nodes.runs(release) }
  })
  const parts: Parts = {
    now,
    tracker,
    memory,
    compressor: new Compressor(memory),
    shared: sharing?.store,
    forgetting,
    streamEnds: new StreamEnds(),
    flights: new SingleFlight(isForMany),
    latestFlights: new GatheringFlight(isShareable),
    nodes,
    settle: async () => {
      const polled = poll.poll()
      // What Redis remembers must do where the node takes its time; else there is nothing to do but wait.
      await (sharing === undefined ? polled : within(recallAfterMs, polled))
      await generations.settled()
      await sharing?.recall()
      if (tracker.chain === undefined) await polled
    },
    pruning: new Pruning(),
    renewals: new Renewals(now),
    tally: metrics,
    settings: settingsOf(config)
  }
  metrics.observe({ tracker, memory, node, redis: sharing?.link })
  const known: KnownReads = new Spellings(Math.max(minSpellingBytes, config.cache.memory.maxMb * mega * spellingShare))
  return { parts, known, metrics, node, poll, generations, sharing }
}

function nodeOf (config: Config, sandboxUrl: string | undefined, now: () => number, onLost: () => void, metrics: Metrics): LedgerNode {
  const [first] = config.upstreams
  const { name, url, headers, timeoutMs, maxConcurrent, caFile } = first ?? {
    name: 'sandbox', url: sandboxUrl ?? '', headers: {}, timeoutMs: 5000, maxConcurrent: 256, caFile: null
  }
  const maxGatheredBytes = config.cache.maxEntryMb * mega
  return new LedgerNode({ name: name ?? 'node-1', url, headers, timeoutMs, maxConcurrent, caFile, onLost, maxGatheredBytes, now }, metrics)
}

function settingsOf ({ mode, upstreams, latest, pages, pruned, headers }: Config): ProxySettings {
  return {
    isObserving: mode === 'observe',
    ignoreCacheControl: upstreams[0]?.ignoreCacheControl ?? false,
    promoteLatest: latest.promote,
    stateMs: latest.stateMs,
    infoMs: latest.infoMs,
    gasMs: latest.gasMs,
    eventsTtlMs: pages.eventsTtlSeconds * 1000,
    servePruned: pruned.serveCached,
    answerLocally: pruned.answerLocally,
    emit: headers.emit
  }
}

/** One line per change, not one per poll. */
function logChanges (name: string, log: Logger): (state: PollState) => void {
  let last: PollState | undefined
  return state => {
    if (state === last) return
    last = state
    switch (state) {
      case 'answered': return log.info({ node: name }, 'the node answers')
      case 'unanswered': return log.warn({ node: name }, 'the node does not answer, or without a position')
      case 'other_chain': return log.error({ node: name }, 'the node serves another chain')
    }
  }
}
