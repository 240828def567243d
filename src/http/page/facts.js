// What is told in words: where the chain stands, what nodes have forgotten, what is kept, and which varve this is.

import { byId, facts, make, repeat, set, show, write, writeNumber } from './dom.js'
import { spanOfTraffic } from './traffic.js'
import { ago, big, bytes, counted, dateOf, grouped, percent, short, within } from './words.js'

const sum = numbers => (numbers ?? []).reduce((total, number) => total + number, 0)

/** Where the chain stands; `sinceMs` since that was told. */
export function showPosition (position, sinceMs) {
  writeNumber(byId('version'), position === undefined ? 'not known yet' : grouped(position.version))
  set(byId('version'), 'class', position === undefined ? 'words' : 'number')
  write(
    byId('version-note'),
    position === undefined
      ? 'no node has told where the chain stands'
      : `block ${grouped(position.blockHeight)}, confirmed ${confirmed(position, sinceMs)}`
  )
}

function confirmed ({ ageMs }, sinceMs) {
  return typeof ageMs === 'number' ? ago(ageMs + sinceMs) : 'by another varve'
}

/** What nodes still have, and what was asked of what they have forgotten. */
export function showHistory (position, recent, traffic) {
  const [oldest, head] = [big(position?.oldestVersion), big(position?.version)]
  const asked = {
    cache: sum(recent?.pruned?.cache),
    local: sum(recent?.pruned?.local),
    upstream: sum(recent?.pruned?.upstream)
  }
  const all = asked.cache + asked.local + asked.upstream
  const pruned = oldest === 0n
    ? 'nothing is pruned'
    : `in block ${grouped(position?.oldestBlockHeight)}; no node has what is below`
  const held = oldest === undefined || head === undefined || head < oldest
    ? []
    : [['Held by nodes', counted(String(head - oldest + 1n), 'version')]]
  facts(byId('history'), [
    [
      'Oldest version',
      oldest === undefined ? 'unknown' : grouped(position.oldestVersion),
      oldest === undefined ? '' : pruned
    ],
    ...held,
    ['Pruned requests', all === 0 ? 'nothing' : counted(all, 'request'), spanOfTraffic(traffic)],
    ...(all === 0
      ? []
      : [
        ['Answered all the same', grouped(asked.cache), 'from what is kept'],
        [
          'Told that it is gone',
          grouped(asked.local + asked.upstream),
          `${grouped(asked.local)} by varve, ${grouped(asked.upstream)} by a node`
        ]
      ])
  ])
}

/** The tiers in which answers wait. */
export function showTiers (tiers, { columns, hits, keepable }) {
  const total = outcome => columns.find(({ name }) => name === outcome).total
  if (tiers === undefined) return facts(byId('tiers'), [['Memory', 'unknown', 'no worker tells of it']])
  const { entries, bytes: taken, maxBytes } = tiers.memory
  facts(byId('tiers'), [
    [
      'Memory',
      `${bytes(taken)} of ${bytes(maxBytes)}`,
      `${counted(entries, 'answer')}; ${percent(taken, maxBytes) ?? '0 %'} full`,
      maxBytes > 0 ? Math.min(1, taken / maxBytes) : 0
    ],
    ['Redis', ...redisIn(tiers.redis)],
    [
      'Hits in memory',
      grouped(total('hit_memory')),
      hits === 0 ? '' : `${percent(total('hit_memory'), keepable)} of reads looked up`
    ],
    [
      'Hits in Redis',
      grouped(total('hit_redis')),
      hits === 0 ? '' : `${percent(total('hit_redis'), keepable)} of reads looked up`
    ]
  ])
}

function redisIn (redis) {
  switch (redis?.state) {
    case 'up':
      return ['answers', 'what is read is shared with other varves']
    case 'down':
      return [redis.reason ?? 'does not answer', 'reads go on without it']
    case 'off':
      return ['off', 'what is read is not shared']
    default:
      return ['unknown']
  }
}

/** Which varve it is. */
export function showVarve ({ varve, chain, position, upstreams = [], workers }) {
  const releases = [...new Set(upstreams.map(({ release }) => release).filter(release => release !== undefined))]
  const made = dateOf(position?.timestampUsec)
  const isObserving = varve?.mode === 'observe'
  facts(byId('varve'), [
    ['Release', varve === undefined ? 'unknown' : `varve ${within(varve.version, 40)}`],
    [
      'Mode',
      isObserving ? 'observes' : 'serves',
      isObserving
        ? 'every request is passed on, nothing is answered from what is kept'
        : 'what is kept is answered from here'
    ],
    [
      'Chain',
      chain === undefined ? 'not known yet' : grouped(chain.id),
      chain === undefined ? '' : `generation ${grouped(chain.generation)} of keys`
    ],
    ['Newest block', made ?? 'unknown', ''],
    [
      'Node releases',
      releases.length === 0 ? 'unknown' : releases.slice(0, 3).map(release => within(release, 24)).join(', '),
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
          worker.degraded?.length > 0 ? `, ${counted(worker.degraded.length, 'complaint')}` : ''
        }`
      )
      write(version, worker.version === undefined ? 'unknown' : grouped(worker.version))
    }
  )
}
