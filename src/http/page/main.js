// Asks varve every other second and shows what it says, for as long as anybody looks.

import { byId, make, set, show, write } from './dom.js'
import { showHistory, showPosition, showTiers, showVarve } from './facts.js'
import { showNodeCount, showNodes } from './nodes.js'
import { showRates, showTraffic, trafficOf } from './traffic.js'
import { age, ago, clockTime, counted, short } from './words.js'

const everyMs = 2000
const patienceMs = 5000

let told
let toldAt
let silentSince
let verdict
let timer
let drawnWidth
let isAsking = false

async function ask () {
  clearTimeout(timer)
  if (isAsking || document.hidden) return
  isAsking = true
  try {
    const answer = await fetch('status.json', { cache: 'no-store', signal: AbortSignal.timeout(patienceMs) })
    if (!answer.ok) throw new Error(`it answers with status ${answer.status}`)
    hear(await answer.json())
  } catch (error) {
    miss(error)
  }
  isAsking = false
  if (!document.hidden) timer = setTimeout(ask, everyMs)
}

function hear (status) {
  told = status
  toldAt = performance.now()
  silentSince = undefined
  const isObserving = status.varve?.mode === 'observe'
  const { upstreams = [], recent, position, tiers } = status
  const traffic = trafficOf(recent)
  show(byId('told'), true)
  show(byId('sandbox'), status.varve?.isSandbox === true)
  judge(status)
  showRates(traffic, isObserving)
  showNodeCount(upstreams, status.varve?.isSandbox === true)
  showTraffic(traffic, isObserving)
  showNodes(upstreams)
  showHistory(position, recent, traffic)
  showTiers(tiers, traffic)
  showVarve(status)
  write(
    byId('about'),
    status.varve === undefined ? '' : `${short(status.varve.version, 40)}${isObserving ? ', observing' : ''}`
  )
  tick()
}

function miss (error) {
  silentSince ??= { at: performance.now(), time: clockTime(new Date()) }
  const reason = error.name === 'TimeoutError'
    ? 'it takes too long'
    : error.name === 'TypeError' || error.name === 'AbortError'
    ? 'it cannot be reached'
    : short(error.message)
  say('is-bad', `varve does not answer since ${silentSince.time}: ${reason}`, [])
  document.title = 'varve: no answer'
  tick()
}

/** What is the matter in one sentence, and each complaint. */
function judge ({ ready, degraded = [] }) {
  const complaints = degraded.slice(0, 50).map(text => short(text, 300))
  if (degraded.length > complaints.length) complaints.push(`and ${degraded.length - complaints.length} more`)
  const few = counted(degraded.length, 'thing is', 'things are')
  if (!ready) say('is-bad', 'varve cannot answer reads yet', complaints)
  else if (degraded.length > 0) {
    say('is-warning', `varve answers, and ${few} not as ${degraded.length === 1 ? 'it' : 'they'} should be`, complaints)
  } else say('is-well', 'All is well', [])
  document.title = !ready ? 'varve: not ready' : degraded.length > 0 ? `varve: ${few} amiss` : 'varve: all is well'
}

// Who has the page read out hears of it when it changes, and not with each look.
function say (kind, sentence, complaints) {
  const next = JSON.stringify([kind, sentence, complaints])
  if (verdict === next) return
  verdict = next
  set(byId('condition'), 'class', `condition ${kind}`)
  show(byId('condition'), true)
  write(byId('verdict'), sentence)
  byId('complaints').replaceChildren(...complaints.map(text => make('li', {}, make('bdi', {}, text))))
  show(byId('complaints'), complaints.length > 0)
}

// Ages go on while nothing new comes.
function tick () {
  const now = performance.now()
  const silence = byId('silence')
  show(silence, silentSince !== undefined)
  if (silentSince !== undefined) {
    write(
      silence,
      `For ${age(now - silentSince.at)}. ${
        told === undefined ? '' : 'What is shown below is from before. '
      }It is asked again every ${counted(everyMs / 1000, 'second')}.`
    )
  }
  if (told === undefined) return
  write(byId('updated'), `told ${ago(now - toldAt)}`)
  showPosition(told.position, now - toldAt)
}

document.addEventListener('visibilitychange', () => {
  ask()
})
new ResizeObserver(([{ contentRect: { width } }]) => {
  // A drawing has no width of its own to give way; its height changes nothing here.
  if (width === drawnWidth || told === undefined) return
  drawnWidth = width
  requestAnimationFrame(() => {
    showTraffic(trafficOf(told.recent), told.varve?.mode === 'observe')
  })
}).observe(byId('chart'))
setInterval(tick, 1000)
ask()
