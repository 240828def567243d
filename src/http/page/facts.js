// Panels of facts: position, history and pruning, cache tiers, totals, release, workers and documentation.

import { byId, facts, make, makeRow, repeat, set, setCell, show, write } from './dom.js'
import { describeTrafficSpan } from './traffic.js'
import { ago, parseU64, bytes, counted, dateOf, duration, grouped, percent, short, isolate, sum } from './words.js'

/** Shows the served head; `sinceMs` is the age of the status. */
export function showPosition (position, sinceMs) {
  write(byId('version'), position === undefined ? 'not known yet' : grouped(position.version))
  set(byId('version'), 'class', position === undefined ? 'words' : 'number')
  const { headAgeMs, ageMs, blockHeight } = position ?? {}
  const moved = typeof headAgeMs === 'number' ? `, moved ${ago(headAgeMs + sinceMs)}` : ''
  const confirmed = typeof ageMs === 'number' ? ago(ageMs + sinceMs) : 'by another varve'
  write(
    byId('version-note'),
    position === undefined
      ? 'no upstream has been reached yet'
      : `block ${grouped(blockHeight)}${moved}, confirmed ${confirmed}`
  )
}

/** Counts the versions that any usable upstream has; windows may leave gaps between them. */
function versionsIn (upstreams) {
  const windows = upstreams.filter(isUsable).flatMap(({ oldestVersion, version }) => {
    const [oldest, head] = [parseU64(oldestVersion), parseU64(version)]
    return oldest === undefined || head === undefined || head < oldest ? [] : [{ oldest, head }]
  }).sort((a, b) => a.oldest < b.oldest ? -1 : 1)
  let count = 0n
  let covered = -1n
  for (const { oldest, head } of windows) {
    const from = oldest > covered ? oldest : covered + 1n
    if (head >= from) count += head - from + 1n
    if (head > covered) covered = head
  }
  return count
}

// Leaves out what no read can reach: the window of a dead upstream is from before.
function isUsable ({ state, cordoned }) {
  return (state === 'up' || state === 'backing_off') && cordoned !== true
}

/** Shows the windows of the upstreams, and the requests below them. */
export function showHistory (position, upstreams, recent, traffic) {
  const [oldest, head] = [parseU64(position?.oldestVersion), parseU64(position?.version)]
  const { cache = [], local = [], upstream = [] } = recent?.pruned ?? {}
  const [hits, byVarve, byUpstream] = [cache, local, upstream].map(sum)
  const all = hits + byVarve + byUpstream
  const pruned = oldest === 0n
    ? 'nothing is pruned'
    : `in block ${grouped(position?.oldestBlockHeight)}; older versions are pruned on every upstream`
  const held = versionsIn(upstreams)
  const all64 = oldest === undefined || head === undefined || head < oldest ? 0n : head - oldest + 1n
  const missing = held < all64 ? `${counted(String(all64 - held), 'version')} that no usable upstream has` : ''
  const window = position === undefined
    ? []
    : [['Held by upstreams', held === 0n ? 'none' : counted(String(held), 'version'), missing]]
  facts(byId('history'), [
    [
      'Oldest version',
      oldest === undefined ? 'unknown' : grouped(position.oldestVersion),
      oldest === undefined ? '' : pruned
    ],
    ...window,
    ['Pruned requests', all === 0 ? 'none' : counted(all, 'request'), describeTrafficSpan(traffic)],
    ...(all === 0
      ? []
      : [
        ['Hits', grouped(hits), 'served from the cache'],
        [
          '410 responses',
          grouped(byVarve + byUpstream),
          `${grouped(byVarve)} by varve, ${grouped(byUpstream)} by an upstream`
        ]
      ])
  ])
}

const followStates = {
  idle: 'waiting for the first latest read',
  starting: 'reading the head',
  following: 'every transaction up to the head is known',
  suspended: 'resumes with the next latest read',
  interrupted: 'latest reads are forwarded',
  unsupported: 'latest reads are forwarded',
  stopped: 'latest reads are forwarded until a reload'
}

/** Shows how the ledger is followed, and what that saves; hidden if nothing follows. */
export function showFollow (follow, { columns, cacheable }) {
  show(byId('follow-panel'), follow !== undefined)
  if (follow === undefined) return
  const { mode, state, reason, version, lagSeconds } = follow
  const isObserving = mode === 'observe'
  const { total } = columns.find(({ name }) => name === 'hit_followed')
  const lag = lagSeconds === 0 ? 'the newest head' : `${duration(lagSeconds * 1000)} behind the newest head`
  facts(byId('follow'), [
    ['Mode', isolate(mode, 20), isObserving ? 'latest reads are forwarded and compared' : ''],
    ['State', isolate(state, 20), reason === undefined ? followStates[state] : short(reason)],
    ['Followed head', version === undefined ? 'none' : grouped(version), typeof lagSeconds === 'number' ? lag : ''],
    [
      'Followed hits',
      grouped(total),
      isObserving ? 'none in this mode' : total === 0 ? '' : `${percent(total, cacheable)} of cacheable reads`
    ]
  ])
}

/** Shows the cache tiers. */
export function showTiers (tiers, inFlight, misses, { columns, hits, cacheable }) {
  const hitsIn = (where, outcome) => {
    const { total } = columns.find(({ name }) => name === outcome)
    return [`Hits ${where}`, grouped(total), hits === 0 ? '' : `${percent(total, cacheable)} of cacheable reads`]
  }
  if (tiers === undefined) return facts(byId('tiers'), [['Memory', 'unknown', 'no worker reports it']])
  const { entries, bytes: usedBytes, maxBytes } = tiers.memory
  const full = percent(usedBytes, maxBytes) ?? '0 %'
  facts(byId('tiers'), [
    ['Memory', ...usageOf(tiers.memory, `${counted(entries, 'entry', 'entries')}; ${full} full`)],
    ...(tiers.shared?.maxBytes === undefined
      ? []
      : [['Shared memory', ...usageOf(tiers.shared, `${grouped(tiers.shared.entries)} entries of all workers`)]]),
    ...(inFlight === undefined
      ? []
      : [[
        'Bytes in flight',
        ...usageOf(inFlight, 'outside the cache: gathered, streamed, being sent or queued for Redis')
      ]]),
    ['Disk', ...diskFactOf(tiers.disk)],
    ['Redis', ...redisFactOf(tiers.redis)],
    hitsIn('in memory', 'hit_memory'),
    hitsIn('on disk', 'hit_disk'),
    hitsIn('in Redis', 'hit_redis'),
    missFactOf(misses)
  ])
}

// Leaves moving reads out: no cache can have them.
function missFactOf ({ moving, ...causes } = {}) {
  const counts = Object.entries(causes).map(([cause, steps]) => [cause, sum(steps)]).filter(([, count]) => count > 0)
  const all = sum(counts.map(([, count]) => count))
  const evicted = counts.find(([cause]) => cause === 'evicted')?.[1]
  return [
    'Misses by cause',
    all === 0 ? 'none' : counts.map(([cause, count]) => `${percent(count, all)} ${cause}`).join(', '),
    evicted === undefined ? '' : `${percent(evicted, all)} of misses were evicted: more memory would help`
  ]
}

function usageOf ({ bytes: used, maxBytes }, note) {
  return [`${bytes(used)} of ${bytes(maxBytes)}`, note, maxBytes > 0 ? Math.min(1, used / maxBytes) : 0]
}

function diskFactOf (disk) {
  if (disk?.maxBytes === undefined) return ['off', 'cached responses do not outlive a restart']
  return disk.state === 'down'
    ? ['down', `${disk.reason}: reads continue without it`]
    : usageOf(disk, `${grouped(disk.entries)} entries that outlive a restart`)
}

function redisFactOf (redis) {
  switch (redis?.state) {
    case 'up':
      return ['up', 'cached responses are shared with other replicas']
    case 'down':
      return [redis.reason ?? 'unreachable', 'reads continue without it']
    case 'off':
      return ['off', 'cached responses are not shared']
    default:
      return ['unknown']
  }
}

/** Shows release, chain and workers. */
export function showVarve ({ varve, chain, position, upstreams = [], workers }) {
  const releases = [...new Set(upstreams.map(({ release }) => release).filter(release => release !== undefined))]
  const newestBlockTime = dateOf(position?.timestampUsec)
  facts(byId('varve'), [
    ['Release', varve === undefined ? 'unknown' : `varve ${isolate(varve.version, 40)}`],
    [
      'Chain',
      chain === undefined ? 'not known yet' : grouped(chain.id),
      chain === undefined ? '' : `space ${isolate(chain.space, 20)}`
    ],
    ['Newest block', newestBlockTime ?? 'unknown', ''],
    [
      'Upstream releases',
      releases.length === 0 ? 'unknown' : releases.slice(0, 3).map(release => isolate(release, 24)).join(', '),
      releases.length > 3 ? `and ${releases.length - 3} more` : ''
    ]
  ])
  show(byId('workers-panel'), workers !== undefined)
  repeat(
    byId('workers').tBodies[0],
    workers ?? [],
    () => makeRow(['Process', 'State', 'Ledger version']),
    (row, { pid, ready, degraded, version }) => {
      const [process, state, ledger] = row.children
      const warnings = degraded?.length > 0 ? `, ${counted(degraded.length, 'warning')}` : ''
      setCell(process, short(pid, 20))
      setCell(state, `${ready ? 'ready' : 'not ready'}${warnings}`)
      setCell(ledger, version === undefined ? 'unknown' : grouped(version))
    }
  )
}

const pages = [
  ['monitoring.md', 'Monitoring'],
  ['troubleshooting.md', 'Troubleshooting'],
  ['runbooks.md', 'Runbooks'],
  ['metrics.md', 'Metrics'],
  ['configuration.md', 'Configuration']
]

/** Shows reads saved, and how long hits and misses take. */
export function showTotals (totals) {
  const { readsSaved, savings = 0, hitMs, missMs, endpoints = [], clients = [] } = totals ?? {}
  facts(byId('totals'), [
    [
      'Reads saved',
      readsSaved === undefined ? 'unknown' : grouped(readsSaved),
      'answered without an upstream request of their own'
    ],
    ...(savings > 0 ? [['Price of these reads', savings.toFixed(2), 'at savings.pricePerMillion']] : []),
    ['Hits, p50 and p99', ...quantiles(hitMs, 'no hits')],
    ['Misses, p50 and p99', ...quantiles(missMs, 'no misses')],
    ...clients.map(({ client, requests, bytes: sent }) => [
      `Key ${short(client, 40)}`,
      bytes(sent),
      `in responses to ${counted(requests, 'request')}`
    ])
  ])
  facts(
    byId('endpoints'),
    endpoints.length === 0
      ? [['None', 'no requests']]
      : endpoints.map(({ endpoint, requests, saved }) => [
        short(endpoint, 40),
        counted(requests, 'request'),
        saved === 0 ? 'none saved' : `${percent(saved, requests)} saved`
      ])
  )
}

/** Links pages of the documentation, if its address is known. */
export function showHelp (docs) {
  repeat(
    byId('help'),
    typeof docs === 'string' && /^https?:/.test(docs) ? pages : [],
    () => make('li', {}, make('a', { rel: 'noreferrer' })),
    ({ firstElementChild: link }, [page, title]) => {
      set(link, 'href', `${docs}${page}`)
      write(link, title)
    }
  )
}

function quantiles (ms, none) {
  return ms === undefined ? [none] : [`${duration(ms.p50)} and ${duration(ms.p99)}`, 'estimated from a histogram']
}
