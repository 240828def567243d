// Polls status.json every two seconds while the page is visible.

import { byId, make, set, show, write } from './dom.js'
import { showFollow, showHelp, showHistory, showPosition, showTiers, showTotals, showVarve } from './facts.js'
import { showUpstreamCount, showUpstreams } from './upstreams.js'
import { showRates, showTraffic, trafficOf } from './traffic.js'
import { age, ago, clockTime, counted, isolate, short } from './words.js'

const pollMs = 2000
const timeoutMs = 5000

let lastStatus
let updatedAt
let failingSince
let shownCondition
let timer
let drawnWidth
let isPolling = false

async function poll () {
  clearTimeout(timer)
  if (isPolling || document.hidden) return
  isPolling = true
  try {
    const response = await fetch('status.json', { cache: 'no-store', signal: AbortSignal.timeout(timeoutMs) })
    if (!response.ok) throw new Error(`status ${response.status}`)
    showStatus(await response.json())
  } catch (error) {
    showFailure(error)
  }
  isPolling = false
  if (!document.hidden) timer = setTimeout(poll, pollMs)
}

function showStatus (status) {
  lastStatus = status
  updatedAt = performance.now()
  failingSince = undefined
  const { upstreams = [], recent, position, tiers } = status
  const traffic = trafficOf(recent)
  show(byId('status'), true)
  show(byId('sandbox'), status.varve?.isSandbox === true)
  showCondition(status)
  showRates(traffic)
  showUpstreamCount(upstreams, status.varve?.isSandbox === true)
  showTraffic(traffic)
  showUpstreams(upstreams)
  showFollow(status.follow, traffic)
  showHistory(position, upstreams, recent, traffic)
  showTiers(tiers, status.inFlight, recent?.misses, traffic)
  showTotals(status.totals)
  showHelp(status.varve?.docs)
  showVarve(status)
  const { version } = status.varve ?? {}
  write(byId('about'), version === undefined ? '' : [short(version, 40), ...namesOf(status, isolate)].join(', '))
  tick()
}

function showFailure (error) {
  failingSince ??= { at: performance.now(), time: clockTime(new Date()) }
  const reason = error.name === 'TimeoutError'
    ? 'timed out'
    : error.name === 'TypeError' || error.name === 'AbortError'
    ? 'connection failed'
    : short(error.message)
  setCondition('is-bad', `varve is unreachable since ${failingSince.time}: ${reason}`, [])
  document.title = titleOf(lastStatus, 'unreachable')
  tick()
}

/** Shows the level in one sentence, and each condition with its own level. */
function showCondition (status) {
  const { ready, level, conditions = [], draining } = status
  const warnings = counted(conditions.length, 'warning')
  const worst = level === 'red' ? conditions.find(condition => condition.level === 'red') : undefined
  const [kind, sentence, word] = draining === true
    ? ['is-warning', 'varve is draining', 'draining']
    : !ready
    ? ['is-bad', 'varve is not ready', 'not ready']
    : level === 'red'
    ? ['is-bad', short(worst?.text ?? 'clients get errors', 300), 'red']
    : level === 'green'
    ? ['is-healthy', 'varve is healthy', 'healthy']
    : ['is-warning', `varve is ready, with ${warnings}`, warnings]
  // Leaves out the condition that is the sentence itself.
  const others = conditions.filter(condition => !ready || condition !== worst)
  const reasons = others.slice(0, 50).map(({ level, text }) => [short(text, 300), level])
  if (others.length > reasons.length) reasons.push([`and ${others.length - reasons.length} more`, 'amber'])
  setCondition(kind, sentence, reasons)
  document.title = titleOf(status, word)
}

/** Names machine and chain first: an operator has many of these pages open. */
function titleOf (status, word) {
  return `varve: ${[word, ...namesOf(status ?? {}, short)].join(', ')}`
}

function namesOf ({ varve, chain }, print) {
  const host = varve?.host === undefined ? [] : [print(varve.host, 40)]
  return [...host, ...(chain === undefined ? [] : [`chain ${print(chain.id, 20)}`])]
}

// Updates on a change only: screen readers announce each update.
function setCondition (kind, sentence, reasons) {
  const condition = JSON.stringify([kind, sentence, reasons])
  if (shownCondition === condition) return
  shownCondition = condition
  set(byId('condition'), 'class', `condition ${kind}`)
  show(byId('condition'), true)
  write(byId('verdict'), sentence)
  byId('reasons').replaceChildren(
    ...reasons.map(([text, level]) => make('li', level === 'red' ? { class: 'is-red' } : {}, make('bdi', {}, text)))
  )
  show(byId('reasons'), reasons.length > 0)
}

// Updates ages between polls.
function tick () {
  const now = performance.now()
  const failure = byId('failure')
  show(failure, failingSince !== undefined)
  if (failingSince !== undefined) {
    write(
      failure,
      `For ${age(now - failingSince.at)}. ${
        lastStatus === undefined ? '' : 'The data below is from before. '
      }Retries every ${counted(pollMs / 1000, 'second')}.`
    )
  }
  if (lastStatus === undefined) return
  write(byId('updated'), `updated ${ago(now - updatedAt)}`)
  showPosition(lastStatus.position, now - updatedAt)
}

document.addEventListener('visibilitychange', poll)
new ResizeObserver(([{ contentRect: { width } }]) => {
  // Redraws on a new width only: the chart sets its own height.
  if (width === drawnWidth || lastStatus === undefined) return
  drawnWidth = width
  requestAnimationFrame(() => showTraffic(trafficOf(lastStatus.recent)))
}).observe(byId('chart'))
setInterval(tick, 1000)
poll()
