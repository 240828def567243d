import { type Logger } from 'pino'
import { LocalBuckets } from '../clients/buckets.js'
import { type Config } from '../config/schema.js'
import { boundsOfPolls } from '../config/budgets.js'
import { keysThatStay } from '../config/exchange.js'
import { shareOf } from '../config/worker-share.js'
import { Metrics } from '../metrics/metrics.js'
import { RecentOfAll, type RecentTold } from '../metrics/recent.js'
import { SummedMetrics, type ToldMetrics } from '../metrics/summed.js'
import { LedgerNode } from '../upstreams/node.js'
import { Refusal, unavailable } from '../api/refusal.js'
import { adminApp, adminIsFull } from '../http/admin-app.js'
import { type Purged } from '../http/purge-route.js'
import { tellUnforeseen } from '../http/reply.js'
import { readinessOfAll, type Status, statusOfAll } from '../http/status-of-all.js'
import { Crew, type Edition, type Program } from '../workers/crew.js'
import { type Chapter, type Patience, type Told } from '../workers/messages.js'
import { SharedPolls } from '../workers/shared-polls.js'
import { type Heard, type WorkerProcess } from '../workers/worker-process.js'
import { namedIn } from './nodes.js'
import { listenOn } from './reader.js'
import { type Varve } from './varve.js'

// Where a node stands is said in few words.
const maxWordBytes = 65_536

/** Serves from several processes that share one listener; this one answers for all of them to an operator. */
export async function startWorkers (
  config: Config,
  sandboxUrl: string | undefined,
  log: Logger,
  program: Program
): Promise<Varve> {
  const metrics = new Metrics()
  const summed = new SummedMetrics(['varve_chain_resets_total'])
  const now = (): number => performance.now()
  const recent = new RecentOfAll(() => performance.timeOrigin + now())
  const buckets = new LocalBuckets(now)
  const open = new Set<SharedPolls>()
  let chapter: Chapter = 0
  let current = config
  let isStopping = false
  const crew = new Crew(program, editionOf(config), {
    onLost: (pid, { code, signal }) => {
      metrics.process.workerLost()
      log.error({ lost: pid, code, signal }, 'a worker has ended: another takes its place')
    },
    onNotReplaced: reason => {
      log.error({ reason }, 'no worker can take the place of one that has ended: it is tried again')
    },
    onEnded: worker => {
      summed.ends(worker)
      recent.ends(worker)
    }
  })
  const admin = adminApp({
    metrics: { contentType: metrics.contentType, text: textOfAll },
    readiness: async () => readinessOfAll(await statuses(), current.workers, isStopping),
    status: async () => statusOfAll(await statuses(), current.workers, isStopping, recent.told),
    onUnforeseen: error => {
      tellUnforeseen({ log, metrics }, error)
    },
    hosts: () => current.admin.hosts,
    onFull: (turnedAway, limit) => {
      log.warn({ turnedAway, limit }, adminIsFull)
    },
    purging: { token: () => current.admin.token, purge: purgeAll }
  })
  const close = async (patience?: Patience): Promise<void> => {
    await crew.stop(patience)
    await admin.close()
    await closeAll([...open])
  }
  try {
    // Before there is a worker, whose first word to nodes and Redis would come before this.
    const adminUrl = await listenOn(admin, config.admin.listen, 'admin.listen')
    const url = await crew.listen()
    log.info({ url, adminUrl, workers: config.workers }, 'listening')
    await crew.ready()
    return { url, adminUrl, metrics, exchange, stop }
  } catch (error) {
    await close()
    throw error
  }

  /** What the workers of a configuration are begun with: each with its share of what all of them may take. */
  function editionOf (of: Config): Edition {
    const nodes = namedIn(of, sandboxUrl).map(upstream =>
      new LedgerNode(
        { ...upstream, ...boundsOfPolls(upstream, of.head.pollMs), maxGatheredBytes: maxWordBytes, now },
        metrics
      )
    )
    const polls = new SharedPolls(nodes, now, (node, target, polled) => {
      crew.tell(edition, { kind: 'polled', node, target, polled })
    })
    const edition: Edition = {
      count: of.workers,
      begin: () => ({ kind: 'begin', config: shareOf(of), sandboxUrl, chapter }),
      hear: (heard, from) => {
        hear(heard, from, edition, polls)
      }
    }
    open.add(polls)
    return edition
  }

  function hear (heard: Heard, from: WorkerProcess, edition: Edition, polls: SharedPolls): void {
    switch (heard.kind) {
      case 'poll':
        return polls.ask(heard.node, heard.target, heard.timeoutMs)
      case 'take':
        return from.tell({ kind: 'taken', id: heard.id, waitMs: buckets.take(heard.subject, heard.allowance) })
      case 'give_back':
        return buckets.giveBack(heard.subject, heard.allowance)
      case 'dropped':
        return follow(Buffer.from(heard.purge), from)
      case 'last_word':
        recent.tells(from, heard.recent as RecentTold)
        return summed.tells(from, heard.metrics as ToldMetrics)
      case 'other_chain':
        // Each worker finds it out, and it is one reset all the same.
        if (heard.chapter > chapter) metrics.reset()
        chapter = Math.max(chapter, heard.chapter)
        return crew.tell(edition, heard, from)
      case 'head':
        crew.tell(edition, heard, from)
    }
  }

  async function exchange (next: Config): Promise<readonly string[]> {
    const before = [...open]
    try {
      await crew.roll(editionOf(next))
    } catch (error) {
      await closeAll([...open].filter(polls => !before.includes(polls)))
      throw error
    }
    await closeAll(before)
    const keys = keysThatStay(current, next).filter(key => key === 'admin.listen')
    current = next
    log.level = next.log.level
    return keys
  }

  async function closeAll (these: readonly SharedPolls[]): Promise<void> {
    await Promise.all(these.map(async polls => {
      open.delete(polls)
      await polls.close()
    }))
  }

  async function stop (patience?: Patience): Promise<void> {
    isStopping = true
    await close(patience)
  }

  async function textOfAll (): Promise<string> {
    await Promise.all(crew.all.map(async worker => {
      const told = await worker.ask({ what: 'metrics' })
      if ('value' in told) summed.tells(worker, told.value as ToldMetrics)
    }))
    return await summed.text(await metrics.told())
  }

  async function statuses (): Promise<Status[]> {
    const told = await Promise.all(crew.staying.map(async worker => {
      const one = await worker.ask({ what: 'status' })
      if (!('value' in one)) return []
      const status = one.value as Status
      recent.tells(worker, status.recent)
      return [status]
    }))
    return told.flat()
  }

  /**
   * What one has found to be wrong is forgotten by each other, of whatever configuration: it names a read, and no node.
   */
  function follow (body: Buffer, from: WorkerProcess): void {
    for (const worker of crew.all) {
      if (worker !== from && worker.isListening) worker.ask({ what: 'follow', body }).catch(() => {})
    }
  }

  /**
   * One does it for what replicas share, and then each other for itself: before that it could find there again what it
   * has just forgotten.
   */
  async function purgeAll (body: Buffer): Promise<Purged> {
    const [first, ...others] = crew.all.filter(({ isListening }) => isListening)
    if (first === undefined) throw unavailable('no worker is there yet')
    const purged = valueOf(await first.ask({ what: 'purge', body })) as Purged
    const told = await Promise.all(others.map(async worker => await worker.ask({ what: 'follow', body })))
    return { ...purged, everywhere: purged.everywhere && told.every(one => 'value' in one) }
  }
}

function valueOf (told: Told): unknown {
  if ('value' in told) return told.value
  if ('error' in told) throw unavailable(told.error)
  const { status, code, message, lines } = told.refusal
  throw new Refusal(status, code, message, lines)
}
