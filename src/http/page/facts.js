// Panels of facts: position, history and pruning, cache tiers, release and workers.

import { byId, facts, make, repeat, set, show, write, writeNumber } from './dom.js'
import { describeTrafficSpan } from './traffic.js'
import { ago, parseU64, bytes, counted, dateOf, grouped, percent, short, isolate } from './words.js'

const sum = numbers => (numbers ?? []).reduce((total, number) => total + number, 0)

/** Shows the served head; `sinceMs` is the age of the status. */
export function showPosition (position, sinceMs) {
  writeNumber(byId('version'), position === undefined ? 'not known yet' : grouped(position.version))
  set(byId('version'), 'class', position === undefined ? 'words' : 'number')
  write(
    byId('version-note'),
    position === undefined
      ? 'no upstream has been reached yet'
      : `block ${grouped(position.blockHeight)}, confirmed ${confirmedText(position, sinceMs)}`
  )
}

function confirmedText ({ ageMs }, sinceMs) {
  return typeof ageMs === 'number' ? ago(ageMs + sinceMs) : 'by another varve'
}

/** Shows the window of the upstreams, and the requests below it. */
export function showHistory (position, recent, traffic) {
  const [oldest, head] = [parseU64(position?.oldestVersion), parseU64(position?.version)]
  const prunedRequests = {
    cache: sum(recent?.pruned?.cache),
    local: sum(recent?.pruned?.local),
    upstream: sum(recent?.pruned?.upstream)
  }
  const all = prunedRequests.cache + prunedRequests.local + prunedRequests.upstream
  const pruned = oldest === 0n
    ? 'nothing is pruned'
    : `in block ${grouped(position?.oldestBlockHeight)}; older versions are pruned on every upstream`
  const window = oldest === undefined || head === undefined || head < oldest
    ? []
    : [['Window', counted(String(head - oldest + 1n), 'version')]]
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
        ['Hits', grouped(prunedRequests.cache), 'served from the cache'],
        [
          'Answered 410',
          grouped(prunedRequests.local + prunedRequests.upstream),
          `${grouped(prunedRequests.local)} by varve, ${grouped(prunedRequests.upstream)} by an upstream`
        ]
      ])
  ])
}

/** Shows the cache tiers. */
export function showTiers (tiers, { columns, hits, cacheable }) {
  const total = outcome => columns.find(({ name }) => name === outcome).total
  if (tiers === undefined) return facts(byId('tiers'), [['Memory', 'unknown', 'no worker reports it']])
  const { entries, bytes: usedBytes, maxBytes } = tiers.memory
  facts(byId('tiers'), [
    [
      'Memory',
      `${bytes(usedBytes)} of ${bytes(maxBytes)}`,
      `${counted(entries, 'entry', 'entries')}; ${percent(usedBytes, maxBytes) ?? '0 %'} full`,
      maxBytes > 0 ? Math.min(1, usedBytes / maxBytes) : 0
    ],
    ['Redis', ...redisFactOf(tiers.redis)],
    [
      'Hits in memory',
      grouped(total('hit_memory')),
      hits === 0 ? '' : `${percent(total('hit_memory'), cacheable)} of cacheable reads`
    ],
    [
      'Hits in Redis',
      grouped(total('hit_redis')),
      hits === 0 ? '' : `${percent(total('hit_redis'), cacheable)} of cacheable reads`
    ]
  ])
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

/** Shows release, mode, chain and workers. */
export function showVarve ({ varve, chain, position, upstreams = [], workers }) {
  const releases = [...new Set(upstreams.map(({ release }) => release).filter(release => release !== undefined))]
  const newestBlockTime = dateOf(position?.timestampUsec)
  const isObserving = varve?.mode === 'observe'
  facts(byId('varve'), [
    ['Release', varve === undefined ? 'unknown' : `varve ${isolate(varve.version, 40)}`],
    [
      'Mode',
      isObserving ? 'observe' : 'serve',
      isObserving
        ? 'every request is forwarded, nothing is served from the cache'
        : 'cached responses are served'
    ],
    [
      'Chain',
      chain === undefined ? 'not known yet' : grouped(chain.id),
      chain === undefined ? '' : `generation ${grouped(chain.generation)}`
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
    () =>
      make(
        'tr',
        { role: 'row' },
        make('th', { role: 'rowheader', scope: 'row', 'data-label': 'Process' }),
        make('td', { role: 'cell', 'data-label': 'State' }),
        make('td', { role: 'cell', 'data-label': 'Ledger version' })
      ),
    (row, worker) => {
      const [pid, state, version] = row.children
      write(pid, short(worker.pid, 20))
      write(
        state,
        `${worker.ready ? 'ready' : 'not ready'}${
          worker.degraded?.length > 0 ? `, ${counted(worker.degraded.length, 'warning')}` : ''
        }`
      )
      write(version, worker.version === undefined ? 'unknown' : grouped(worker.version))
    }
  )
}
