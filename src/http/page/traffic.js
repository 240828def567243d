// Recent requests by outcome: sums, chart and table.

import { byId, draw, make, repeat, set, write } from './dom.js'
import { age, counted, grouped, percent, perSecond } from './words.js'

// Outcomes with their labels, from the bottom of the chart upwards.
const outcomes = [
  ['hit_memory', 'Memory hit'],
  ['hit_disk', 'Disk hit'],
  ['hit_redis', 'Redis hit'],
  ['hit_followed', 'Followed hit'],
  ['collapsed', 'Coalesced'],
  ['miss', 'Miss'],
  ['forwarded', 'Forwarded'],
  ['preflight', 'Preflights'],
  ['gone', 'Gone, 410'],
  ['rejected', 'Rejected, 4xx'],
  ['limited', 'Rate limited, 429'],
  ['unavailable', 'Unavailable, 5xx']
]
const maxSteps = 121
const stepsPerMinute = 12

/** Computes the recent traffic: each outcome with its steps and their sum. */
export function trafficOf (recent) {
  const columns = outcomes.map(([name, label]) => {
    const steps = recent?.outcomes?.[name] ?? []
    return { name, label, steps, total: sum(steps) }
  })
  const total = name => columns.find(column => column.name === name).total
  const hits = sum(columns.filter(({ name }) => name.startsWith('hit_')).map(column => column.total))
  const length = columns[0].steps.length
  return {
    columns,
    length,
    stepMs: recent?.stepMs ?? 5000,
    all: sum(columns.map(column => column.total)),
    hits,
    cacheable: hits + total('miss') + total('collapsed'),
    // Leaves out the last step, which is not over.
    lastMinute: sum(columns.map(({ steps }) => sum(steps.slice(-1 - stepsPerMinute, -1)))),
    minuteSteps: Math.min(stepsPerMinute, Math.max(0, length - 1))
  }
}

/** Describes the time span of the counts. */
export function describeTrafficSpan ({ length, stepMs }) {
  return length >= maxSteps ? 'in the last 10 minutes' : `since the start ${age(Math.max(1000, length * stepMs))} ago`
}

/** Shows the share of requests of the last minute that got no error from varve. */
function showSuccess ({ columns, lastMinute, minuteSteps, stepMs }) {
  const { steps } = columns.find(({ name }) => name === 'unavailable')
  const failed = sum(steps.slice(-1 - stepsPerMinute, -1))
  const seconds = minuteSteps * stepMs / 1000
  write(byId('success-rate'), percent(lastMinute - failed, lastMinute) ?? 'no requests')
  write(
    byId('success-note'),
    seconds === 0 || failed === 0 ? 'no errors' : `${perSecond(failed / seconds)} errors per second`
  )
}

/** Shows hit rate, success rate and request rate. */
export function showRates (traffic, isObserving) {
  const { all, hits, cacheable, lastMinute, minuteSteps, stepMs } = traffic
  showSuccess(traffic)
  const rate = percent(hits, cacheable)
  write(byId('hit-rate'), rate ?? (all === 0 ? 'no reads yet' : 'no cacheable reads'))
  set(byId('hit-rate'), 'class', rate === undefined ? 'words' : 'number')
  const none = all === 0 ? `no requests ${describeTrafficSpan(traffic)}` : 'only requests that are not cacheable'
  write(
    byId('hit-note'),
    rate === undefined
      ? none
      : `${isObserving ? 'as it would be: ' : ''}${grouped(hits)} of ${counted(cacheable, 'cacheable read')}`
  )
  const seconds = minuteSteps * stepMs / 1000
  write(byId('rate'), seconds === 0 ? '–' : perSecond(lastMinute / seconds))
  const over = minuteSteps === stepsPerMinute ? 'in the last minute' : 'so far'
  write(
    byId('rate-note'),
    seconds === 0 ? `just started; ${grouped(all)} so far` : `${over}; ${grouped(all)} ${describeTrafficSpan(traffic)}`
  )
}

/** Shows chart, legend and table. */
export function showTraffic (traffic, isObserving) {
  const { columns, all } = traffic
  write(
    byId('traffic-note'),
    `${
      all === 0
        ? `No requests ${describeTrafficSpan(traffic)}.`
        : `${counted(all, 'request')} ${describeTrafficSpan(traffic)}, in steps of ${traffic.stepMs / 1000} seconds.`
    }${
      isObserving
        ? ' Observe mode: every request was forwarded, and these are the outcomes that it would have had.'
        : ''
    }`
  )
  repeat(
    byId('legend'),
    columns,
    () =>
      make(
        'li',
        {},
        make('span', { 'aria-hidden': 'true' }),
        make('span'),
        make('span', { class: 'number' }),
        make('span', { class: 'note' })
      ),
    (item, { name, label, total }) => {
      const [swatch, labelElement, count, share] = item.children
      set(swatch, 'class', `swatch ${name}`)
      write(labelElement, label)
      write(count, grouped(total))
      write(share, percent(total, all) ?? '')
    }
  )
  drawChart(byId('chart'), traffic)
  showMinutes(byId('minutes'), traffic)
}

const right = 8
const top = 10
const bottom = 24

function drawChart (place, { columns, length, stepMs, all }) {
  const width = place.clientWidth
  const height = width < 480 ? 150 : 210
  const heights = Array.from({ length }, (_, at) => sum(columns.map(({ steps }) => steps[at] ?? 0)) / (stepMs / 1000))
  const highest = niceAbove(Math.max(0, ...heights))
  const scaleText = rate => rate === 0 ? '0' : `${perSecond(rate)}/s`
  const left = 12 + 7 * scaleText(highest).length
  if (width <= left + right) return
  const slot = (width - left - right) / maxSteps
  const x = at => left + (maxSteps - length + at) * slot
  const y = rate => top + (height - top - bottom) * (1 - rate / highest)
  const scale = (all === 0 ? [0] : [0, 0.5, 1]).map(share => share * highest).flatMap(rate => [
    draw('line', {
      class: rate === 0 ? 'ground' : 'grid',
      x1: left,
      x2: width - right,
      y1: crisp(y(rate)),
      y2: crisp(y(rate))
    }),
    draw('text', { x: left - 8, y: y(rate) + 4, 'text-anchor': 'end' }, scaleText(rate))
  ])
  const every = width < 640 ? 5 : 2
  const times = Array.from({ length: 10 / every + 1 }, (_, at) => at * every).map(ago =>
    draw('text', {
      x: ago === 0 ? width - right : left + (maxSteps - 0.5 - ago * stepsPerMinute) * slot,
      y: height - 6,
      'text-anchor': ago === 0 ? 'end' : ago === 10 ? 'start' : 'middle'
    }, ago === 0 ? 'now' : `${ago} min ago`)
  )
  const floor = Array.from({ length }, () => 0)
  const gap = slot >= 4 ? 1 : 0
  const layers = columns.map(({ name, steps }) =>
    draw('path', {
      class: name,
      d: steps.map((count, at) => {
        if (count === 0) return ''
        const low = y(floor[at])
        floor[at] += count / (stepMs / 1000)
        return `M${x(at).toFixed(2)} ${low.toFixed(2)}h${(slot - gap).toFixed(2)}V${y(floor[at]).toFixed(2)}h-${
          (slot - gap).toFixed(2)
        }z`
      }).join('')
    })
  )
  const nothing = all === 0
    ? [
      draw('text', {
        class: 'nothing',
        x: (left + width - right) / 2,
        y: (top + height - bottom) / 2,
        'text-anchor': 'middle'
      }, 'no requests')
    ]
    : []
  const totals = columns.filter(({ total }) => total > 0).map(({ label, total }) => `${label}: ${grouped(total)}`)
  place.replaceChildren(
    draw(
      'svg',
      {
        viewBox: `0 0 ${width} ${height}`,
        width,
        height,
        role: 'img',
        'aria-label': `Requests per second by outcome over ten minutes. ${
          all === 0 ? 'There were none.' : totals.join(', ')
        }`
      },
      ...scale,
      ...times,
      ...layers,
      ...nothing
    )
  )
}

function showMinutes (table, { columns, length }) {
  if (table.tHead === null) {
    table.append(
      make(
        'thead',
        {},
        make(
          'tr',
          {},
          make('th', { scope: 'col' }, 'When'),
          ...columns.map(({ name, label }) => make('th', { scope: 'col' }, label, ' ', make('code', {}, name)))
        )
      ),
      make('tbody')
    )
  }
  const minutes = Array.from({ length: Math.min(10, Math.ceil(length / stepsPerMinute)) }, (_, ago) => ago)
  const cells = ago =>
    columns.map(({ steps }) =>
      sum(steps.slice(ago === 9 ? 0 : Math.max(0, length - (ago + 1) * stepsPerMinute), length - ago * stepsPerMinute))
    )
  repeat(
    table.tBodies[0],
    minutes,
    () => make('tr', {}, make('th', { scope: 'row' }), ...columns.map(() => make('td'))),
    (row, ago) => {
      const [when, ...counts] = row.children
      write(when, ago === 0 ? 'the last minute' : `${ago} to ${ago + 1} minutes ago`)
      cells(ago).forEach((count, at) => {
        write(counts[at], grouped(count))
      })
    }
  )
}

function sum (numbers) {
  return numbers.reduce((total, number) => total + number, 0)
}

// Rounds up to a number that halves well, for the middle grid line.
function niceAbove (highest) {
  if (highest <= 0.2) return 0.2
  const ten = 10 ** Math.floor(Math.log10(highest))
  return [1, 2, 3, 4, 6, 8, 10].map(step => step * ten).find(step => step >= highest) ?? 10 * ten
}

function crisp (at) {
  return Math.round(at) + 0.5
}
