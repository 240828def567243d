// Table of upstreams: state, window, lag, latency and load.

import { clockTime, parseU64, counted, duration, grouped, short, isolate } from './words.js'
import { byId, make, makeRow, repeat, set, setCell, show, fillBar, makeBar, write } from './dom.js'

const columns = ['Upstream', 'State', 'Window', 'Lag', 'Latency', 'Requests']

const stateWords = {
  up: 'up',
  unknown: 'not polled yet',
  backing_off: 'backing off',
  down: 'down',
  quarantined: 'quarantined'
}

/** Shows the number of upstreams that are up, and names those that are not. */
export function showUpstreamCount (upstreams, isSandbox) {
  const up = upstreams.filter(({ state }) => state === 'up').length
  const others = upstreams.filter(({ state }) => state !== 'up')
  write(byId('upstream-count'), upstreams.length === 0 ? 'none' : `${grouped(up)} of ${grouped(upstreams.length)}`)
  const named = others.slice(0, 2).map(({ name, state }) => `${isolate(name, 24)} ${isolate(stateOf(state))}`)
  const more = others.length > 2 ? [`${others.length - 2} more`] : []
  const allUp = isSandbox ? 'the embedded sandbox, whose chain is made up' : upstreams.length === 1 ? 'up' : 'all up'
  write(
    byId('upstream-note'),
    upstreams.length === 0 ? 'no worker reports one' : others.length === 0 ? allUp : [...named, ...more].join(', ')
  )
}

/** Shows the table. */
export function showUpstreams (upstreams) {
  show(byId('upstreams'), upstreams.length > 0)
  show(byId('no-upstreams'), upstreams.length === 0)
  const range = rangeOf(upstreams)
  repeat(
    byId('upstreams').tBodies[0],
    upstreams,
    makeUpstreamRow,
    (row, upstream) => showUpstream(row, upstream, range)
  )
}

function makeUpstreamRow () {
  const row = makeRow(columns)
  const [, state, window] = row.children
  state.replaceChildren(
    make('span', { class: 'state' }, make('span', { class: 'sign', 'aria-hidden': 'true' }), make('bdi')),
    make('bdi', { class: 'note' })
  )
  window.append(makeBar('window'))
  return row
}

function showUpstream (row, upstream, range) {
  const [name, state, window, lag, latency, requests] = row.children
  set(row, 'data-state', stateWords[upstream.state] === undefined ? 'unknown' : upstream.state)
  setCell(
    name,
    short(upstream.name),
    upstream.release === undefined ? 'release unknown' : `release ${isolate(upstream.release, 12)}`
  )
  write(state.querySelector('.state bdi'), stateOf(upstream.state))
  const isOld = upstream.state === 'down' || upstream.state === 'quarantined'
  row.classList.toggle('is-old', isOld)
  const reasons = [
    ...(upstream.reason === undefined ? [] : [isolate(upstream.reason)]),
    ...(upstream.cordoned === true ? ['cordoned by an operator: gets no reads'] : []),
    // A quarantined upstream is never used, whatever its circuit.
    ...(upstream.circuit === 'open' && upstream.state !== 'quarantined'
      ? ['circuit open: used only if no other upstream is left']
      : []),
    ...(isOld && typeof upstream.ageMs === 'number'
      ? [`values as of ${clockTime(new Date(Date.now() - upstream.ageMs))}`]
      : [])
  ]
  write(state.querySelector('.note'), reasons.join('; '))
  const [oldest, head] = [parseU64(upstream.oldestVersion), parseU64(upstream.version)]
  const isKnown = oldest !== undefined && head !== undefined
  setCell(
    window,
    isKnown ? `${grouped(upstream.oldestVersion)} – ${grouped(upstream.version)}` : 'unknown',
    isKnown && head >= oldest ? counted(String(head - oldest + 1n), 'version') : ''
  )
  const bar = window.querySelector('svg')
  show(bar, isKnown)
  if (isKnown) fillBar(bar, shareOf(oldest, range), Math.max(shareOf(oldest, range) + 0.01, shareOf(head, range)))
  setCell(
    lag,
    upstream.lagVersions === undefined
      ? 'unknown'
      : upstream.lagVersions === '0'
      ? 'none'
      : counted(upstream.lagVersions, 'version'),
    upstream.lagSeconds >= 1 ? `${duration(Math.floor(upstream.lagSeconds) * 1000)} of ledger time` : ''
  )
  setCell(
    latency,
    upstream.latencyMs === undefined ? 'unknown' : duration(upstream.latencyMs),
    upstream.p95Ms === undefined ? '' : `p95 ${duration(upstream.p95Ms)}`
  )
  setCell(
    requests,
    upstream.inFlight === 0 ? 'none' : `${grouped(upstream.inFlight)} in flight`,
    [
      ...(upstream.waiting > 0 ? [`${grouped(upstream.waiting)} queued`] : []),
      ...(upstream.streams > 0
        ? [`${grouped(upstream.streams)} of ${counted(upstream.maxConcurrent, 'slot')} held by streams`]
        : []),
      ...unitsOf(upstream)
    ].join('; ')
  )
}

function unitsOf ({ budget }) {
  if (budget === undefined) return []
  const { left, max, refillPerSecond } = budget
  return [
    `${grouped(left)} of ${counted(max, 'unit')} left, ${
      Number.isFinite(refillPerSecond) ? refillPerSecond : 'unknown'
    } a second come back`
  ]
}

function stateOf (state) {
  return stateWords[state] ?? short(state, 24)
}

/** Returns the range from the oldest version of any upstream to the newest. */
function rangeOf (upstreams) {
  const known = upstreams.flatMap(({ oldestVersion, version }) => [parseU64(oldestVersion), parseU64(version)]).filter(
    version => version !== undefined
  )
  const from = known.reduce((least, version) => version < least ? version : least, known[0] ?? 0n)
  return { from, to: known.reduce((most, version) => version > most ? version : most, from) }
}

function shareOf (version, { from, to }) {
  return to === from ? 0 : Number((version - from) * 10_000n / (to - from)) / 10_000
}
