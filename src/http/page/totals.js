// Panels of requests since the start, and links to the documentation.

import { byId, facts, make, repeat, set, write } from './dom.js'
import { counted, duration, grouped, percent, short } from './words.js'

const pages = [
  ['monitoring.md', 'What this page shows'],
  ['troubleshooting.md', 'Troubleshooting'],
  ['runbooks.md', 'Runbooks of the alerts'],
  ['metrics.md', 'Every metric'],
  ['configuration.md', 'Every setting']
]

/** Shows reads saved, and how long hits and misses take. */
export function showTotals (totals) {
  const { readsSaved, hitMs, missMs, endpoints = [] } = totals ?? {}
  facts(byId('totals'), [
    [
      'Reads saved',
      readsSaved === undefined ? 'unknown' : grouped(readsSaved),
      'answered without an upstream request of their own'
    ],
    ['Hits, p50 and p99', ...quantiles(hitMs, 'no hits')],
    ['Misses, p50 and p99', ...quantiles(missMs, 'no misses')]
  ])
  facts(
    byId('endpoints'),
    endpoints.length === 0
      ? [['None', 'no requests']]
      : endpoints.map(({ endpoint, requests, saved }) => [
        short(endpoint, 40),
        counted(requests, 'request'),
        saved === 0 ? 'none saved' : `${percent(saved, requests)} saved`
      ])
  )
}

/** Links pages of the documentation, where its address is known. */
export function showHelp (docs) {
  repeat(
    byId('help'),
    typeof docs === 'string' && /^https?:/.test(docs) ? pages : [],
    () => make('li', {}, make('a', { rel: 'noreferrer' })),
    ({ firstElementChild: link }, [page, title]) => {
      set(link, 'href', `${docs}${page}`)
      write(link, title)
    }
  )
}

function quantiles (ms, none) {
  return ms === undefined ? [none] : [`${duration(ms.p50)} and ${duration(ms.p99)}`, 'estimated from a histogram']
}
