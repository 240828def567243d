// How the last requests were answered: the sums, the drawing, and the same as a table.

import { byId, draw, make, repeat, set, write } from './dom.js'
import { age, counted, grouped, percent, perSecond } from './words.js'

/** Each outcome as it is counted, in words, from the ground of the drawing upwards. */
const outcomes = [
  ['hit_memory', 'From memory'],
  ['hit_redis', 'From Redis'],
  ['collapsed', 'Joined another’s fetch'],
  ['miss', 'Read from a node'],
  ['forwarded', 'Passed on to a node'],
  ['preflight', 'Preflights'],
  ['gone', 'Gone, 410'],
  ['rejected', 'Rejected, 4xx'],
  ['limited', 'Rate limited, 429'],
  ['unavailable', 'Unavailable, 5xx']
]
const slots = 121
const minute = 12

/** What the page says of the last minutes: each outcome with its steps and their sum. */
export function trafficOf (recent) {
  const columns = outcomes.map(([name, words]) => {
    const steps = recent?.outcomes?.[name] ?? []
    return { name, words, steps, total: sum(steps) }
  })
  const total = name => columns.find(column => column.name === name).total
  const hits = total('hit_memory') + total('hit_redis')
  const length = columns[0].steps.length
  return {
    columns,
    length,
    stepMs: recent?.stepMs ?? 5000,
    all: sum(columns.map(column => column.total)),
    hits,
    keepable: hits + total('miss') + total('collapsed'),
    // What is under way is no whole step yet.
    lastMinute: sum(columns.map(({ steps }) => sum(steps.slice(-1 - minute, -1)))),
    minuteSteps: Math.min(minute, Math.max(0, length - 1))
  }
}

/** Over how long it was counted, in words. */
export function spanOfTraffic ({ length, stepMs }) {
  return length >= slots ? 'in the last 10 minutes' : `since it began, ${age(Math.max(1000, length * stepMs))} ago`
}

/** Shows the numbers that are asked for first. */
export function showRates (traffic, isObserving) {
  const { all, hits, keepable, lastMinute, minuteSteps, stepMs } = traffic
  const rate = percent(hits, keepable)
  write(byId('hit-rate'), rate ?? (all === 0 ? 'no reads yet' : 'none to tell'))
  set(byId('hit-rate'), 'class', rate === undefined ? 'words' : 'number')
  const none = all === 0 ? `no requests ${spanOfTraffic(traffic)}` : 'nothing was asked that is looked up'
  write(
    byId('hit-note'),
    rate === undefined
      ? none
      : `${isObserving ? 'as it would be: ' : ''}${grouped(hits)} of ${counted(keepable, 'read')} looked up`
  )
  const seconds = minuteSteps * stepMs / 1000
  write(byId('rate'), seconds === 0 ? '–' : perSecond(lastMinute / seconds))
  const over = minuteSteps === minute ? 'in the last minute' : 'so far'
  write(
    byId('rate-note'),
    seconds === 0 ? `it has just begun; ${grouped(all)} so far` : `${over}; ${grouped(all)} ${spanOfTraffic(traffic)}`
  )
}

/** Shows the drawing with its words. */
export function showTraffic (traffic, isObserving) {
  const { columns, all } = traffic
  write(
    byId('traffic-note'),
    `${
      all === 0
        ? `No requests ${spanOfTraffic(traffic)}.`
        : `${counted(all, 'request')} ${spanOfTraffic(traffic)}, in steps of ${traffic.stepMs / 1000} seconds.`
    }${
      isObserving
        ? ' Varve only observes: every request was passed on, and these are the outcomes that it would have had.'
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
    (item, { name, words, total }) => {
      const [swatch, label, count, share] = item.children
      set(swatch, 'class', `swatch ${name}`)
      write(label, words)
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
  const slot = (width - left - right) / slots
  const x = at => left + (slots - length + at) * slot
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
      x: ago === 0 ? width - right : left + (slots - 0.5 - ago * minute) * slot,
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
  const told = columns.filter(({ total }) => total > 0).map(({ words, total }) => `${words}: ${grouped(total)}`)
  place.replaceChildren(
    draw(
      'svg',
      {
        viewBox: `0 0 ${width} ${height}`,
        width,
        height,
        role: 'img',
        'aria-label': `Requests per second by outcome over ten minutes. ${
          all === 0 ? 'There were none.' : told.join(', ')
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
          ...columns.map(({ name, words }) => make('th', { scope: 'col' }, words, ' ', make('code', {}, name)))
        )
      ),
      make('tbody')
    )
  }
  const minutes = Array.from({ length: Math.min(10, Math.ceil(length / minute)) }, (_, ago) => ago)
  const cells = ago =>
    columns.map(({ steps }) =>
      sum(steps.slice(ago === 9 ? 0 : Math.max(0, length - (ago + 1) * minute), length - ago * minute))
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

// A number that is easily halved.
function niceAbove (highest) {
  if (highest <= 0.2) return 0.2
  const ten = 10 ** Math.floor(Math.log10(highest))
  return [1, 2, 3, 4, 6, 8, 10].map(step => step * ten).find(step => step >= highest) ?? 10 * ten
}

function crisp (at) {
  return Math.round(at) + 0.5
}
