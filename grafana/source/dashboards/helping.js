import { dashboard } from '../dashboard.js'
import { lines, stat } from '../forms.js'
import { increase, part, quantile, rate, sum } from '../queries.js'

// Of these every series exists from the start, so that the first request of a kind is counted too; those with a status
// begin at their first request.
const requests = 'varve_request_duration_seconds_count'
const hits = 'outcome=~"hit_.*"'
const saved = 'outcome=~"hit_.*|collapsed"'
// Error responses that varve makes by itself.
const ownErrors = 'outcome=~"gone|rejected|limited|unavailable"'
const cacheable = 'outcome=~"hit_.*|miss|collapsed"'
const asked = 'varve_upstream_request_duration_seconds_count'

export default dashboard({
  uid: 'varve-helping',
  title: 'varve: is it helping?',
  description: 'What varve saves its nodes, and how fast clients are answered.',
  from: 'now-1h',
  sections: [
    ['In the time shown', [
      4,
      stat(
        'Hit rate',
        'What part of the reads that could come from the cache did: hit / (hit + miss + collapsed), without ' +
          'moving reads; where it stays low, see which endpoint is missed and whether the cache is full.',
        [[part(sum(increase(requests, hits)), sum(increase(requests, cacheable))), 'hit rate']],
        { unit: 'percentunit', decimals: 1, base: 'red', steps: [[0.3, 'yellow'], [0.7, 'green']], none: 'no reads' }
      ),
      stat(
        'Reads saved',
        'Reads that no node was asked for, being hits or sharing the fetch of another; 0 beside many ' +
          'requests means that all of them are moving reads, or that the cache is empty.',
        [[sum(increase(requests, saved)), 'saved']],
        { decimals: 0 }
      ),
      stat('Requests', 'Requests that clients sent; where it is 0, look whether traffic reaches varve at all.', [[
        sum(increase(requests)),
        'requests'
      ]], { decimals: 0 }),
      stat(
        'Asked of nodes',
        'Requests that varve sent to its nodes, for clients and for itself; where it is above the number of ' +
          'requests, see which endpoint asks so much.',
        [[`${sum(increase(asked))} or vector(0)`, 'asked']],
        { decimals: 0 }
      ),
      stat(
        'Answered 5xx',
        'What part of all answers had a status of 5xx; where it is not 0, see the board of the nodes.',
        [[
          part(`(${sum(increase('varve_requests_total', 'status=~"5.."'))} or vector(0))`, sum(increase(requests))),
          '5xx'
        ]],
        {
          unit: 'percentunit',
          decimals: 2,
          base: 'green',
          steps: [[0.001, 'yellow'], [0.01, 'red']],
          none: 'no requests'
        }
      ),
      stat(
        'Answered 429',
        'Requests that were refused or turned away for asking too much, by varve or a node; where it is not ' +
          '0, see who is limited on the board of varve itself.',
        [[`${sum(increase('varve_requests_total', 'status="429"'))} or vector(0)`, '429']],
        { decimals: 0, base: 'green', steps: [[1, 'yellow']] }
      )
    ]],
    ['What it saves', [
      8,
      lines(
        'Requests by outcome',
        'Requests a second: hit, from memory or Redis; collapsed, sharing the fetch of another; miss, ' +
          'fetched; forwarded, moving or passed on; preflight, gone, rejected, limited and unavailable, ' +
          'answered by varve itself; many misses of what was asked before mean a cache that is too small.',
        [[sum(rate(requests), 'outcome'), '{{outcome}}']],
        { unit: 'reqps', stacked: true }
      ),
      lines(
        'Hit rate by endpoint',
        'hit / (hit + miss + collapsed) of each endpoint that was asked for; one that falls while the others ' +
          'do not is asked for ever new things, or its answers are not kept.',
        [[part(sum(rate(requests, hits), 'endpoint'), sum(rate(requests, cacheable), 'endpoint')), '{{endpoint}}']],
        { unit: 'percentunit', max: 1, none: 'no reads' }
      )
    ], [
      8,
      lines(
        'Saved, and asked of nodes',
        'Reads a second that no node was asked for, and requests a second that nodes were asked; the further ' +
          'apart, the more varve saves.',
        [[sum(rate(requests, saved)), 'saved'], [`${sum(rate(asked))} or vector(0)`, 'asked']],
        { unit: 'reqps' }
      ),
      lines(
        'Requests by endpoint',
        'What clients ask for, in requests a second; a jump of one endpoint tells whose traffic has changed.',
        [[sum(rate(requests), 'endpoint'), '{{endpoint}}']],
        { unit: 'reqps', stacked: true }
      ),
      lines(
        'Asked of nodes, by endpoint',
        'What still reaches the nodes, in requests a second; whatever is large here and moving could be ' +
          'shielded by the settings under latest.',
        [[sum(rate('varve_upstream_requests_total'), 'endpoint'), '{{endpoint}}']],
        { unit: 'reqps', stacked: true }
      )
    ]],
    ['How fast clients are answered', [
      8,
      lines(
        'Median by outcome',
        'Half of the requests took less time in varve than this; a hit that takes over some milliseconds ' +
          'means a busy machine or a slow Redis, a miss takes what its node takes.',
        [[quantile(0.5, 'varve_request_duration_seconds', ['outcome']), '{{outcome}}']],
        { unit: 's', none: 'no requests' }
      ),
      lines(
        'p99 by outcome',
        'One request in a hundred took longer than this; where hits are slow too, look at the event loop on ' +
          'the board of varve itself, else at the nodes.',
        [[quantile(0.99, 'varve_request_duration_seconds', ['outcome']), '{{outcome}}']],
        { unit: 's', none: 'no requests' }
      ),
      lines(
        'p99 by endpoint',
        'One request in a hundred took longer than this, by what was asked for; one endpoint alone being ' +
          'slow speaks of what it asks of the nodes.',
        [[quantile(0.99, 'varve_request_duration_seconds', ['endpoint']), '{{endpoint}}']],
        { unit: 's', none: 'no requests' }
      )
    ]],
    ['What clients are answered', [
      8,
      lines(
        'Answers by status',
        'Answers a second by their status; 5xx are failures, 429 is a limit, 410 is history that is gone, ' +
          'and a status that never was before shows from its second answer on.',
        [[sum(rate('varve_requests_total'), 'status'), '{{status}}']],
        { unit: 'reqps', stacked: true }
      ),
      lines(
        'Errors of varve, by status',
        'Error responses a second that varve made by itself: 400 is a malformed request, 410 pruned history, ' +
          '429 a limit and 503 no upstream that can answer; the access log names the clients.',
        [[sum(rate('varve_requests_total', ownErrors), 'status'), '{{status}}']],
        { unit: 'reqps', stacked: true, none: '0' }
      ),
      lines(
        'Clients with a key',
        'Requests a second of each client of clients.keys, by its name; one that asks far more than the ' +
          'others may need a limit of its own.',
        [[sum(rate('varve_client_requests_total'), 'client'), '{{client}}']],
        { unit: 'reqps', none: 'no keys' }
      )
    ]]
  ]
})
