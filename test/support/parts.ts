import { type Test } from 'tap'
import { Compressor } from '../../src/cache/compressor.js'
import { Memory } from '../../src/cache/memory.js'
import { GatheringFlight, SingleFlight } from '../../src/cache/single-flight.js'
import { PageLimit } from '../../src/proxy/events/page-limit.js'
import { StreamEnds } from '../../src/proxy/events/stream-ends.js'
import { StreamNames } from '../../src/proxy/events/stream-names.js'
import { Arrivals } from '../../src/chain/arrivals.js'
import { Asked } from '../../src/chain/asked.js'
import { Tracker } from '../../src/chain/tracker.js'
import { Fleet } from '../../src/upstreams/fleet.js'
import { HeadPoll } from '../../src/chain/head-poll.js'
import { Member } from '../../src/upstreams/member.js'
import { LedgerNode } from '../../src/upstreams/node.js'
import { LiveReleases } from '../../src/upstreams/live-releases.js'
import { Auditor } from '../../src/proxy/auditor.js'
import { Forgetting } from '../../src/proxy/forgetting.js'
import { isForMany, isShareable } from '../../src/proxy/outcomes.js'
import { type Parts } from '../../src/proxy/parts.js'
import { Pruning } from '../../src/api/pruning.js'
import { Renewals } from '../../src/proxy/renewals.js'
import { type Read } from '../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'

/** The parts of a proxy in front of a node, without listeners, for what only shows in the order of steps. */
export function partsAt (t: Test, url: string, clock = { ms: 0 }): { parts: Parts } {
  const nothing = (): void => {}
  const tracker = new Tracker(undefined, () => 0, {
    onReset: nothing,
    onShown: () => {
      arrivals.look()
    }
  })
  const arrivals = new Arrivals(tracker, {
    now: () => performance.now(),
    onWaiting: () => {
      poll.poll().catch(nothing)
    }
  })
  const memory = new Memory(1e6, { wrote: nothing, evicted: nothing }, () => clock.ms)
  const streamNames = new StreamNames(() => clock.ms, () => {
    memory.letGo()
  })
  const node = new LedgerNode({
    name: 'n',
    url,
    headers: {},
    timeoutMs: 5000,
    maxConcurrent: 64,
    caFile: null,
    maxGatheredBytes: 1e6,
    now: () => performance.now()
  }, { asked: nothing })
  const releases = new LiveReleases(() => clock.ms)
  const member = new Member(node, {
    now: () => clock.ms,
    welcome: async () => undefined,
    isStrange: () => false,
    recognises: async () => true,
    hasPeers: () => false
  })
  const nodes = new Fleet([member], undefined, releases, {
    wallClockMs: () => Date.now(),
    onOldest: nothing,
    onNobody: async () => {}
  })
  const onRelease = (release: string): void => {
    node.runs(release)
    releases.saw(release)
  }
  const poll = new HeadPoll(async question => await member.ask(question), tracker, {
    pollMs: 1000,
    now: () => 0,
    isDue: () => false,
    onState: nothing,
    onRelease
  })
  t.teardown(async () => {
    await node.close()
  })
  return {
    parts: {
      now: () => clock.ms,
      tracker,
      arrivals,
      asked: new Asked(() => clock.ms),
      memory,
      compressor: new Compressor(memory),
      shared: undefined,
      forgetting: new Forgetting(memory, streamNames),
      auditor: new Auditor(nothing, async () => {}),
      streamEnds: new StreamEnds(),
      streamNames,
      pageLimit: new PageLimit(),
      flights: new SingleFlight(isForMany),
      looks: new SingleFlight(() => true),
      latestFlights: new GatheringFlight(isShareable),
      pruning: new Pruning(),
      nodes,
      settle: async () => {
        await poll.poll()
      },
      renewals: new Renewals(() => clock.ms),
      tally: { notKept: nothing, staleLatest: nothing, waited: nothing, audited: nothing, pruned: nothing },
      settings: {
        isObserving: false,
        promoteLatest: true,
        auditShare: 0,
        stateMs: 0,
        infoMs: 1000,
        indexMs: 250,
        gasMs: 500,
        waitMs: 0,
        waitBlocks: 2,
        eventsTtlMs: 3_600_000,
        eventsDefault: 25,
        servePruned: true,
        answerLocally: true,
        pinsPages: false,
        emit: ['node', 'upstream']
      }
    }
  }
}

/** The canonical read of a GET. */
export function readOf (target: string): Read {
  const match = matchEndpoint(target, 'GET')
  if (match === undefined) throw new Error(`no read at ${target}`)
  return readRequest(match, { method: 'GET', accept: undefined, contentType: undefined, body: Buffer.alloc(0) }, {
    eventsDefault: 25
  })
}
