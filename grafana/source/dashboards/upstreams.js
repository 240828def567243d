import { dashboard } from '../dashboard.js'
import { lines, stat, states } from '../forms.js'
import { increase, max, min, of, quantile, rate, sum } from '../queries.js'

const requests = 'varve_upstream_requests_total'
const failed = ['status=~"429|5..|[a-z_]+"', 'status!="cancelled"']
const state = name => of('varve_upstream_state', `state="${name}"`)
// Ordered from best to worst: if replicas differ, the worst state is shown.
const named = [
  ['up', 'green'],
  ['unknown', 'text'],
  ['backing_off', 'yellow'],
  ['quarantined', 'purple'],
  ['down', 'red']
]

export default dashboard({
  uid: 'varve-upstreams',
  title: 'varve: are the upstreams healthy?',
  description: 'State, position, latency and load of each upstream.',
  from: 'now-1h',
  sections: [
    ['Now', [
      4,
      stat(
        'Upstreams up',
        'Upstreams that are up, of those configured, on the replica with the fewest; if one is missing, see' +
          ' its state and failures below.',
        [[min(sum(of('varve_upstream_up'), 'instance')), 'up'], [
          max(`count by (instance) (${of('varve_upstream_up')})`),
          'configured'
        ]],
        { decimals: 0 }
      ),
      stat(
        'Quarantined',
        'Upstreams that a replica has quarantined because they serve another chain; /readyz has the reason,' +
          ' and an upstream that stays quarantined is misconfigured or broken.',
        [[max(sum(state('quarantined'), 'instance')), 'quarantined']],
        { decimals: 0, base: 'green', steps: [[1, 'red']] }
      ),
      stat(
        'Position age',
        'Time since an upstream last confirmed the position, on the replica where it is longest; above some' +
          ' seconds no upstream is up.',
        [[max(of('varve_ledger_position_age_seconds')), 'age']],
        { unit: 's', decimals: 1, base: 'green', steps: [[5, 'yellow'], [30, 'red']] }
      ),
      stat(
        'Busiest upstream',
        'Highest share of the concurrency limit in use at any upstream; near 100 % reads are queued, so ' +
          'raise maxConcurrent or add an upstream.',
        [[max(`${of('varve_upstream_in_flight')} / ${of('varve_upstream_max_concurrent')}`), 'busiest']],
        { unit: 'percentunit', decimals: 0, base: 'green', steps: [[0.7, 'yellow'], [0.95, 'red']] }
      ),
      stat(
        'Stale latest',
        'Moving reads in the time shown that were served from behind the served head; many mean that the ' +
          'only upstreams that are up lag.',
        [[sum(increase('varve_stale_latest_total')), 'stale']],
        { decimals: 0, base: 'green', steps: [[1, 'yellow']] }
      ),
      stat(
        'Chain resets',
        'Times in the time shown that varve found its upstreams on another chain, which invalidates the ' +
          'whole cache; expect it on test networks only.',
        [[max(increase('varve_chain_resets_total')), 'resets']],
        { decimals: 0, base: 'green', steps: [[1, 'red']] }
      )
    ]],
    ['Health', [
      8,
      states(
        'State',
        'up; unknown: not polled yet; backing_off: rate limits varve (429); quarantined: serves another ' +
          'chain; down; if replicas differ the worst state is shown, and the log and /readyz of that replica ' +
          'have the reason.',
        [[max(named.map(([name], at) => `${state(name)} * ${at + 1}`).join(' or '), 'upstream'), '{{upstream}}']],
        named
      ),
      lines(
        'Failures',
        'Upstream requests per second that ended in 429, 5xx or no response, by failure reason; no_slot and' +
          ' exhausted are limits of varve, all others point to the upstream or the network.',
        [[sum(rate(requests, ...failed), 'upstream', 'status'), '{{upstream}} {{status}}']],
        { unit: 'reqps', none: '0' }
      ),
      lines(
        'Upstream requests by status',
        'Upstream requests per second by status or failure reason; 404 and 410 are responses like others.',
        [[sum(rate(requests), 'status'), '{{status}}']],
        { unit: 'reqps', stacked: true }
      )
    ]],
    ['Positions and windows', [
      8,
      lines(
        'Position',
        'Newest version of each upstream; a line that stops is an upstream that no longer follows the ' +
          'chain.',
        [[max(of('varve_upstream_version'), 'upstream'), '{{upstream}}']],
        { isFromZero: false }
      ),
      lines(
        'Lag',
        'Versions by which each upstream lags behind the served head; with a growing lag an upstream cannot' +
          ' keep up, and serves no latest reads.',
        [[max(of('varve_upstream_lag_versions'), 'upstream'), '{{upstream}}']]
      ),
      lines(
        'Oldest version',
        'Oldest version of each upstream; only the lowest line serves the oldest history, which is lost ' +
          'with that upstream.',
        [[max(of('varve_upstream_oldest_version'), 'upstream'), '{{upstream}}']],
        { isFromZero: false }
      ),
      lines(
        'Window',
        'Versions that each upstream has, from its oldest to its newest; a step down means that the ' +
          'upstream was pruned or set up again.',
        [[max(`${of('varve_upstream_version')} - ${of('varve_upstream_oldest_version')}`, 'upstream'), '{{upstream}}']]
      )
    ]],
    ['Latency and hedges', [
      8,
      lines(
        'Latency',
        'Median and p99 of the response time of each upstream; varve prefers faster upstreams, so one slow ' +
          'line alone does little harm.',
        [[quantile(0.5, 'varve_upstream_request_duration_seconds', ['upstream']), '{{upstream}} p50'], [
          quantile(0.99, 'varve_upstream_request_duration_seconds', ['upstream']),
          '{{upstream}} p99'
        ]],
        { unit: 's', none: 'no requests' }
      ),
      lines(
        'Lag in time',
        'Ledger time by which each upstream lags behind the served head or the newest upstream; above its ' +
          'maxLagSeconds, /readyz is amber.',
        [[max(of('varve_upstream_lag_seconds'), 'upstream'), '{{upstream}}']],
        { unit: 's' }
      ),
      lines(
        'Requests by upstream',
        'Requests per second that were sent to each upstream, as recorded by the rules; a healthy upstream without ' +
          'requests lags, is slow, or lacks the requested versions.',
        [[sum(of('instance_upstream:varve_upstream_requests:rate5m'), 'upstream'), '{{upstream}}']],
        { unit: 'reqps', stacked: true, none: 'no requests, or no rules' }
      ),
      lines(
        'Hedges',
        'Reads per second that varve sent to a second upstream because the first was slow: won, the second ' +
          'response was used; lost, the first; failed, neither; mostly lost hedges save nothing, so lower ' +
          'hedge.share.',
        [[sum(rate('varve_hedges_total'), 'result'), '{{result}}']],
        { unit: 'reqps', stacked: true }
      )
    ]],
    ['Load', [
      8,
      lines(
        'In flight by upstream',
        'Requests in flight to each upstream, of all replicas; while a line stays flat at its limit, reads ' +
          'are queued.',
        [[sum(of('varve_upstream_in_flight'), 'upstream'), '{{upstream}}'], [
          sum(of('varve_upstream_max_concurrent'), 'upstream'),
          '{{upstream}} limit'
        ]]
      ),
      lines(
        'Queued',
        'Reads queued for a slot of each upstream; if it stays above 0, raise maxConcurrent or ' +
          'requestsPerSecond, or add an upstream.',
        [[sum(of('varve_upstream_waiting'), 'upstream'), '{{upstream}}']],
        { soft: 10 }
      )
    ], [
      8,
      lines(
        'Requests allowed by requestsPerSecond',
        'Requests per second that processes took from the limit of an upstream: all, counted together; share, each ' +
          'its part while the others could not be reached.',
        [[sum(rate('varve_upstream_tokens_total'), 'upstream', 'source'), '{{upstream}} {{source}}']],
        { unit: 'reqps', stacked: true }
      ),
      lines(
        'Units left',
        'Compute units of each upstream with a budget that may be spent at once, and most that are saved.',
        [[of('varve_upstream_budget_units'), '{{upstream}} {{kind}}']]
      ),
      lines(
        'Replicas that share limits',
        'Live replicas as each replica knows them; lines that differ mean that some do not reach Redis.',
        [[of('varve_replicas'), '{{instance}}']]
      )
    ], [
      8,
      lines(
        'Slots held by streams',
        'Slots of each upstream held by responses that stream at the pace of their clients, and streams broken off ' +
          'per second because others waited.',
        [
          [sum(of('varve_upstream_slots_held_by_streams'), 'upstream'), '{{upstream}}'],
          [
            `${sum(rate('varve_upstream_streams_broken_off_total'), 'upstream')} or ` +
            `0 * ${sum(of('varve_upstream_slots_held_by_streams'), 'upstream')}`,
            '{{upstream}} broken off'
          ]
        ],
        { soft: 10 }
      ),
      lines(
        'No slot',
        'Reads per second that got no slot of an upstream, because its queue was full or its queue timeout ' +
          'passed; without another upstream the client got 503.',
        [[sum(rate(requests, 'status="no_slot"'), 'upstream'), '{{upstream}}']],
        { unit: 'reqps', none: '0' }
      ),
      lines(
        'Waits for a version',
        'Reads per second that waited for an upstream to reach a version: reached; timeout, not in time; ' +
          'too_many_waits, rejected at the limit; many timeouts mean that upstreams lag.',
        [[sum(rate('varve_version_waits_total'), 'result'), '{{result}}'], [
          sum(of('varve_waiting_for_version')),
          'waiting now'
        ]]
      )
    ]]
  ]
})
