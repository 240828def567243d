// Recent requests by outcome: sums, chart and table.

import { byId, draw, make, repeat, set, write } from './dom.js'
import { age, counted, grouped, percent, perSecond, sum } from './words.js'

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
// Cards cover five minutes, as the recording rules and the dashboards do.
const cardMinutes = 5

/** Computes the recent traffic: each outcome with its steps and their sum. */
export function trafficOf (recent) {
  const columns = outcomes.map(([name, label]) => {
    const steps = recent?.outcomes?.[name] ?? []
    return { name, label, steps, total: sum(steps) }
  })
  const length = columns[0].steps.length
  const stepMs = recent?.stepMs ?? 5000
  const totals = Object.fromEntries(columns.map(({ name, total }) => [name, total]))
  return { columns, length, stepMs, ...countsOf(totals), cards: cardsOf(columns, length, stepMs) }
}

function countsOf (totals) {
  const hits = sum(Object.keys(totals).filter(name => name.startsWith('hit_')).map(name => totals[name]))
  return { all: sum(Object.values(totals)), hits, cacheable: hits + totals.miss + totals.collapsed }
}

/** Counts what all cards show, in one period. */
function cardsOf (columns, length, stepMs) {
  const steps = Math.min(cardMinutes * stepsPerMinute, Math.max(0, length - 1))
  const totals = Object.fromEntries(columns.map(column => [column.name, sum(column.steps.slice(-1 - steps))]))
  // Leaves the last step, which is not over, out of the rate.
  const complete = sum(columns.map(column => sum(column.steps.slice(-1 - steps, -1))))
  return {
    ...countsOf(totals),
    limited: totals.limited,
    rejected: totals.rejected,
    failed: totals.unavailable,
    perSecond: steps === 0 ? undefined : complete / (steps * stepMs / 1000),
    period: steps === cardMinutes * stepsPerMinute
      ? `in the last ${cardMinutes} minutes`
      : `since the start ${age(Math.max(1000, length * stepMs))} ago`
  }
}

/** Describes the time span of the counts. */
export function describeTrafficSpan ({ length, stepMs }) {
  return length >= maxSteps ? 'in the last 10 minutes' : `since the start ${age(Math.max(1000, length * stepMs))} ago`
}

/** Shows the share of requests that were neither rejected nor failed, and what became of the others. */
function showSuccess ({ all, limited, rejected, failed, period }) {
  const others = [
    ...(limited > 0 ? [`${grouped(limited)} rejected with 429`] : []),
    ...(rejected > 0 ? [`${grouped(rejected)} rejected with 4xx`] : []),
    ...(failed > 0 ? [counted(failed, 'error')] : [])
  ]
  write(byId('success-rate'), percent(all - limited - rejected - failed, all) ?? 'no requests')
  write(byId('success-note'), `${others.length === 0 ? 'none rejected, no errors' : others.join(', ')} ${period}`)
}

/** Shows hit rate, success rate and request rate, all of one period. */
export function showRates ({ cards }) {
  const { all, hits, cacheable, failed, perSecond: rate, period } = cards
  showSuccess(cards)
  const hitRate = percent(hits, cacheable)
  write(byId('hit-rate'), hitRate ?? (all === 0 ? 'no reads yet' : 'no cacheable reads'))
  set(byId('hit-rate'), 'class', hitRate === undefined ? 'words' : 'number')
  // Failed requests are neither hits nor misses, which a rate of 100 % would hide.
  const without = failed > 0 ? `, without ${counted(failed, 'failed request')}` : ''
  write(
    byId('hit-note'),
    hitRate === undefined
      ? `${
        all === 0
          ? 'no requests'
          : failed > 0
          ? 'no cacheable read was served'
          : 'only requests that are not cacheable'
      } ${period}`
      : `${grouped(hits)} of ${counted(cacheable, 'cacheable read')}${without} ${period}`
  )
  write(byId('rate'), rate === undefined ? '–' : perSecond(rate))
  write(byId('rate-note'), `${rate === undefined ? 'just started; ' : ''}${counted(all, 'request')} ${period}`)
}

/** Shows chart, legend and table. */
export function showTraffic (traffic) {
  const { columns, all } = traffic
  write(
    byId('traffic-note'),
    all === 0
      ? `No requests ${describeTrafficSpan(traffic)}.`
      : `${counted(all, 'request')} ${describeTrafficSpan(traffic)}, in steps of ${traffic.stepMs / 1000} seconds.`
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
  const scale = (all === 0 ? [0] : [0, 0.5, 1]).map(share => share * highest).flatMap(rate => {
    // Lies on whole pixels, so that the line is sharp.
    const line = Math.round(y(rate)) + 0.5
    return [
      draw('line', { class: rate === 0 ? 'ground' : 'grid', x1: left, x2: width - right, y1: line, y2: line }),
      draw('text', { x: left - 8, y: y(rate) + 4, 'text-anchor': 'end' }, scaleText(rate))
    ]
  })
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
  const middle = { x: (left + width - right) / 2, y: (top + height - bottom) / 2, 'text-anchor': 'middle' }
  const nothing = all === 0 ? [draw('text', { class: 'nothing', ...middle }, 'no requests')] : []
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
  repeat(
    table.tHead.rows[0],
    [{ label: 'When', name: '' }, ...columns],
    () => make('th', { scope: 'col' }, make('span'), make('code')),
    ({ children: [labelElement, code] }, { label, name }) => {
      write(labelElement, label)
      write(code, name)
    }
  )
  const minutes = Array.from({ length: Math.min(10, Math.ceil(length / stepsPerMinute)) }, (_, ago) => ago)
  repeat(
    table.tBodies[0],
    minutes,
    () => make('tr', {}, make('th', { scope: 'row' }), ...columns.map(() => make('td'))),
    ({ children: [when, ...counts] }, ago) => {
      write(when, ago === 0 ? 'the last minute' : `${ago} to ${ago + 1} minutes ago`)
      const first = ago === 9 ? 0 : Math.max(0, length - (ago + 1) * stepsPerMinute)
      columns.forEach(({ steps }, at) =>
        write(counts[at], grouped(sum(steps.slice(first, length - ago * stepsPerMinute))))
      )
    }
  )
}

// Rounds up to a number that halves well, for the middle grid line.
function niceAbove (highest) {
  if (highest <= 0.2) return 0.2
  const ten = 10 ** Math.floor(Math.log10(highest))
  return [1, 2, 3, 4, 6, 8, 10].map(step => step * ten).find(step => step >= highest) ?? 10 * ten
}
