// The nodes: how each is in words, and how far its history goes beside the others'.

import { big, counted, duration, grouped, short, within } from './words.js'
import { byId, make, repeat, set, show, spanned, spanOf, write } from './dom.js'

const columns = ['Node', 'State', 'History', 'Behind', 'Answers in', 'Asked now']

const stateWords = {
  up: 'answers',
  unknown: 'not heard of yet',
  resting: 'resting',
  down: 'does not answer',
  fenced: 'not asked'
}

/** What is said of them in two words, and of whom it is not true. */
export function showNodeCount (upstreams, isSandbox) {
  const up = upstreams.filter(({ state }) => state === 'up').length
  const others = upstreams.filter(({ state }) => state !== 'up')
  write(byId('node-count'), upstreams.length === 0 ? 'none' : `${grouped(up)} of ${grouped(upstreams.length)}`)
  const named = others.slice(0, 2).map(({ name, state }) => `${within(name, 24)} ${within(stateOf(state))}`)
  const more = others.length > 2 ? [`${others.length - 2} more`] : []
  const well = isSandbox
    ? 'the embedded sandbox node, whose chain is made up'
    : upstreams.length === 1
    ? 'answers'
    : 'all answer'
  write(
    byId('node-note'),
    upstreams.length === 0 ? 'no worker tells of one' : others.length === 0 ? well : [...named, ...more].join(', ')
  )
}

/** Shows the table. */
export function showNodes (upstreams) {
  show(byId('nodes'), upstreams.length > 0)
  show(byId('no-nodes'), upstreams.length === 0)
  const range = rangeOf(upstreams)
  repeat(byId('nodes').tBodies[0], upstreams, rowOf, (row, node) => {
    showNode(row, node, range)
  })
}

function rowOf () {
  const cells = columns.map((label, at) =>
    make(
      at === 0 ? 'th' : 'td',
      { role: at === 0 ? 'rowheader' : 'cell', 'data-label': label, ...(at === 0 && { scope: 'row' }) },
      make('bdi'),
      make('span', { class: 'note' })
    )
  )
  cells[1].replaceChildren(
    make('span', { class: 'state' }, make('span', { class: 'sign', 'aria-hidden': 'true' }), make('bdi')),
    make('bdi', { class: 'note' })
  )
  cells[2].append(spanOf('window'))
  return make('tr', { role: 'row' }, ...cells)
}

function showNode (row, node, range) {
  const [name, state, history, behind, answers, asked] = row.children
  set(row, 'data-state', stateWords[node.state] === undefined ? 'unknown' : node.state)
  say(name, short(node.name), node.release === undefined ? 'release unknown' : `release ${within(node.release, 12)}`)
  write(state.querySelector('.state bdi'), stateOf(node.state))
  const reasons = [
    ...(node.reason === undefined ? [] : [within(node.reason)]),
    ...(node.circuit === 'open' ? ['circuit open: asked only where nobody else is left'] : [])
  ]
  write(state.querySelector('.note'), reasons.join('; '))
  const [oldest, head] = [big(node.oldestVersion), big(node.version)]
  const isKnown = oldest !== undefined && head !== undefined
  say(
    history,
    isKnown ? `${grouped(node.oldestVersion)} – ${grouped(node.version)}` : 'unknown',
    isKnown && head >= oldest ? counted(String(head - oldest + 1n), 'version') : ''
  )
  const bar = history.querySelector('svg')
  show(bar, isKnown)
  if (isKnown) spanned(bar, shareOf(oldest, range), Math.max(shareOf(oldest, range) + 0.01, shareOf(head, range)))
  say(
    behind,
    node.lagVersions === undefined
      ? 'unknown'
      : node.lagVersions === '0'
      ? 'up to date'
      : counted(node.lagVersions, 'version'),
    ''
  )
  say(
    answers,
    node.latencyMs === undefined ? 'unknown' : duration(node.latencyMs),
    node.p95Ms === undefined ? '' : `95\u00a0% within ${duration(node.p95Ms)}`
  )
  say(
    asked,
    node.underWay === 0 ? 'nothing' : `${grouped(node.underWay)} under way`,
    node.waiting > 0 ? `${grouped(node.waiting)} waiting` : ''
  )
}

function say (cell, text, note) {
  const [main, more] = cell.children
  write(main, text)
  write(more, note)
}

function stateOf (state) {
  return stateWords[state] ?? short(state, 24)
}

/** From the oldest version that any of them has to the newest. */
function rangeOf (upstreams) {
  const known = upstreams.flatMap(({ oldestVersion, version }) => [big(oldestVersion), big(version)]).filter(version =>
    version !== undefined
  )
  const from = known.reduce((least, version) => version < least ? version : least, known[0] ?? 0n)
  return { from, to: known.reduce((most, version) => version > most ? version : most, from) }
}

function shareOf (version, { from, to }) {
  return to === from ? 0 : Number((version - from) * 10_000n / (to - from)) / 10_000
}
