import { type Logger } from 'pino'
import { Compressor } from '../cache/compressor.js'
import { Memory } from '../cache/memory.js'
import { GatheringFlight, SingleFlight } from '../cache/single-flight.js'
import { Spellings } from '../cache/spellings.js'
import { PageLimit } from '../proxy/events/page-limit.js'
import { StreamEnds } from '../proxy/events/stream-ends.js'
import { StreamNames } from '../proxy/events/stream-names.js'
import { type Buckets } from '../clients/buckets.js'
import { cipherListOf } from '../config/ciphers.js'
import { type Config } from '../config/schema.js'
import { Arrivals } from '../chain/arrivals.js'
import { Asked } from '../chain/asked.js'
import { Tracker } from '../chain/tracker.js'
import { Metrics } from '../metrics/metrics.js'
import { LiveReleases } from '../upstreams/live-releases.js'
import { Auditor } from '../proxy/auditor.js'
import { Forgetting } from '../proxy/forgetting.js'
import { type KnownReads } from '../proxy/known-read.js'
import { isForMany, isShareable } from '../proxy/outcomes.js'
import { type Parts, type ProxySettings } from '../proxy/parts.js'
import { Pruning } from '../api/pruning.js'
import { Renewals } from '../proxy/renewals.js'
import { Generations } from '../chain/generations.js'
import { Certificate } from '../http/certificate.js'
import { within } from '../within.js'
import { dropperOf } from './dropping.js'
import { keepHeapLean } from './lean-heap.js'
import { type Nodes, nodesOf } from './nodes.js'
import { type NodesOptions } from './seat.js'
import { type Sharing, type sharingOf } from './sharing.js'
import { versionOfProgram } from './version.js'

/** Who else takes part, where varve is several processes. */
export interface Hooks {
  readonly asksForAll?: NodesOptions['asksForAll']
  /** By whom it is counted what clients take, if not by this process itself. */
  readonly countsForAll?: Buckets
  /** An answer has moved the position on. */
  readonly onAhead?: () => void
  /** The chain has turned out to be another one. */
  readonly onOtherChain?: () => void
  /** What was kept has turned out to be wrong, and is to be forgotten by all. */
  readonly onDropped?: (purge: Buffer) => void
}

/** Everything below the listeners. */
export interface Built {
  readonly parts: Parts
  readonly metrics: Metrics
  readonly nodes: Nodes
  readonly generations: Generations
  readonly sharing: Sharing | undefined
  /** Of a public listener over TLS. */
  readonly certificate: Certificate | undefined
}

const mega = 1024 * 1024
const recallAfterMs = 1000
// What the memory of spellings may take beside that of answers.
const spellingShare = 1 / 8
const minSpellingBytes = 4 * mega

/** Builds every part that a read passes through, and what keeps them true; `share` where a Redis is configured. */
export function build (
  config: Config,
  sandboxUrl: string | undefined,
  log: Logger,
  share: typeof sharingOf | undefined,
  hooks: Hooks
): Built {
  const metrics = new Metrics()
  const now = (): number => performance.now()
  const certificate = certificateOf(config, now, log)
  const memory = new Memory(config.cache.memory.maxMb * mega, metrics, now, keepHeapLean)
  const streamNames = new StreamNames(now, () => {
    memory.letGo()
  })
  const forgetting = new Forgetting(memory, streamNames)
  const releases = new LiveReleases(now)
  const { redis } = config.cache
  const tracker = new Tracker(config.chainId ?? undefined, now, {
    onReset: stamped => {
      metrics.reset()
      log.warn('the chain was reset: a new generation of keys begins')
      nodes.forget()
      generations.wasReset(stamped)
      hooks.onOtherChain?.()
    },
    onAhead: () => {
      sharing?.tellHead()
      hooks.onAhead?.()
    },
    onShown: () => {
      arrivals.look()
    }
  }, share !== undefined)
  const arrivals = new Arrivals(tracker, {
    now,
    onWaiting: () => {
      nodes.hurry()
    }
  })
  const asked = new Asked(now)
  const nodes = nodesOf(config, sandboxUrl, {
    now,
    tracker,
    releases,
    tally: metrics,
    log,
    generations: () => generations,
    asksForAll: hooks.asksForAll
  })
  const sharing = share?.(redis, { upstreams: nodes.upstreams, tracker, releases, forgetting, metrics, log, now })
  const generations: Generations = new Generations({
    tracker,
    control: sharing?.control,
    ...nodes.witness,
    now,
    events: {
      onGeneration: generation => {
        forgetting.forgetAll()
        asked.forget()
        // What waits bears the number of a generation that may be another chain's.
        sharing?.store.dropAll()
        log.info({ generation }, 'keys are of this generation')
        sharing?.look().catch(() => {})
      },
      onReplaced: () => {
        // Some may still be on the old chain.
        nodes.forget()
        metrics.reset()
        log.warn('another replica has noticed that the chain was reset')
        hooks.onOtherChain?.()
      },
      onRival: generation => {
        log.error(
          { generation },
          'other replicas share this Redis and read another chain of the same name: give each chain a ' +
            'keyPrefix of its own'
        )
      }
    }
  })
  const parts: Parts = {
    now,
    tracker,
    arrivals,
    asked,
    memory,
    compressor: new Compressor(memory),
    shared: sharing?.store,
    forgetting,
    auditor: new Auditor(
      dropperOf({ forgetting, sharing: () => sharing, onDropped: hooks.onDropped, log, now }),
      async node => {
        await nodes.ask(node)
      }
    ),
    streamEnds: new StreamEnds(),
    streamNames,
    pageLimit: new PageLimit(),
    flights: new SingleFlight(isForMany),
    looks: new SingleFlight(() => true),
    latestFlights: new GatheringFlight(isShareable),
    nodes: nodes.fleet,
    settle: async () => {
      const polled = nodes.settle()
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
  metrics.observe({
    tracker,
    arrivals,
    asked,
    memory,
    fleet: nodes.fleet,
    redis: sharing?.link,
    version: versionOfProgram(),
    isSandbox: sandboxUrl !== undefined,
    certificate
  })
  return { parts, metrics, nodes, generations, sharing, certificate }
}

function certificateOf (
  { tls: { certFile, keyFile, minVersion, ciphers } }: Config,
  now: () => number,
  log: Logger
): Certificate | undefined {
  if (certFile === null || keyFile === null) return undefined
  const terms = { minVersion: minVersion === 1.3 ? 'TLSv1.3' : 'TLSv1.2', ciphers: cipherListOf(ciphers) } as const
  return new Certificate({ certFile, keyFile, terms, wallClockMs: () => performance.timeOrigin + now(), log })
}

/** Room for the reads that are known by their spelling. */
export function knownReadsOf ({ cache }: Config): KnownReads {
  return new Spellings(Math.max(minSpellingBytes, cache.memory.maxMb * mega * spellingShare))
}

/** What an operator chose of how reads are answered. */
export function settingsOf ({ mode, audit, waitForVersion, latest, pages, pruned, headers }: Config): ProxySettings {
  return {
    isObserving: mode === 'observe',
    promoteLatest: latest.promote,
    auditShare: audit.share,
    stateMs: latest.stateMs,
    infoMs: latest.infoMs,
    indexMs: latest.indexMs,
    gasMs: latest.gasMs,
    waitMs: waitForVersion.ms,
    waitBlocks: waitForVersion.blocks,
    eventsTtlMs: pages.eventsTtlSeconds * 1000,
    eventsDefault: pages.eventsDefault,
    servePruned: pruned.serveCached,
    answerLocally: pruned.answerLocally,
    pinsPages: pages.pinned,
    emit: headers.emit
  }
}
