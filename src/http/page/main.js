// Polls status.json every two seconds while the page is visible.

import { byId, make, set, show, write } from './dom.js'
import { showHistory, showPosition, showTiers, showVarve } from './facts.js'
import { showUpstreamCount, showUpstreams } from './upstreams.js'
import { showRates, showTraffic, trafficOf } from './traffic.js'
import { age, ago, clockTime, counted, short } from './words.js'

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
  const isObserving = status.varve?.mode === 'observe'
  const { upstreams = [], recent, position, tiers } = status
  const traffic = trafficOf(recent)
  show(byId('status'), true)
  show(byId('sandbox'), status.varve?.isSandbox === true)
  showCondition(status)
  showRates(traffic, isObserving)
  showUpstreamCount(upstreams, status.varve?.isSandbox === true)
  showTraffic(traffic, isObserving)
  showUpstreams(upstreams)
  showHistory(position, recent, traffic)
  showTiers(tiers, traffic)
  showVarve(status)
  write(
    byId('about'),
    status.varve === undefined ? '' : `${short(status.varve.version, 40)}${isObserving ? ', observe mode' : ''}`
  )
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
  document.title = 'varve: unreachable'
  tick()
}

/** Shows the condition in one sentence, and each reason of `degraded`. */
function showCondition ({ ready, degraded = [] }) {
  const reasons = degraded.slice(0, 50).map(text => short(text, 300))
  if (degraded.length > reasons.length) reasons.push(`and ${degraded.length - reasons.length} more`)
  const warnings = counted(degraded.length, 'warning')
  if (!ready) setCondition('is-bad', 'varve is not ready', reasons)
  else if (degraded.length > 0) {
    setCondition('is-warning', `varve is ready, with ${warnings}`, reasons)
  } else setCondition('is-healthy', 'varve is healthy', [])
  document.title = !ready ? 'varve: not ready' : degraded.length > 0 ? `varve: ${warnings}` : 'varve: healthy'
}

// Updates on a change only: screen readers announce each update.
function setCondition (kind, sentence, reasons) {
  const condition = JSON.stringify([kind, sentence, reasons])
  if (shownCondition === condition) return
  shownCondition = condition
  set(byId('condition'), 'class', `condition ${kind}`)
  show(byId('condition'), true)
  write(byId('verdict'), sentence)
  byId('reasons').replaceChildren(...reasons.map(text => make('li', {}, make('bdi', {}, text))))
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

document.addEventListener('visibilitychange', () => {
  poll()
})
new ResizeObserver(([{ contentRect: { width } }]) => {
  // Redraws on a new width only: the chart sets its own height.
  if (width === drawnWidth || lastStatus === undefined) return
  drawnWidth = width
  requestAnimationFrame(() => {
    showTraffic(trafficOf(lastStatus.recent), lastStatus.varve?.mode === 'observe')
  })
}).observe(byId('chart'))
setInterval(tick, 1000)
poll()
