import { dashboard } from '../dashboard.js'
import { lines, stat, states } from '../forms.js'
import { increase, max, min, of, quantile, rate, sum } from '../queries.js'

const asked = 'varve_upstream_requests_total'
const failed = ['status=~"429|5..|[a-z_]+"', 'status!="taken_back"']
const state = name => of('varve_upstream_state', `state="${name}"`)
// The worse of what two replicas say is shown.
const named = [['up', 'green'], ['unknown', 'text'], ['resting', 'yellow'], ['fenced', 'purple'], ['down', 'red']]

export default dashboard({
  uid: 'varve-nodes',
  title: 'varve: are the nodes well?',
  description: 'Where each node stands, what it answers, and how much it is asked.',
  from: 'now-1h',
  sections: [
    ['Now', [
      4,
      stat(
        'Nodes that answer',
        'Nodes that answer and are asked, of those that are configured, on the replica with the fewest; ' +
          'where one is missing, see its state and its failures below.',
        [[min(sum(of('varve_upstream_up'), 'instance')), 'up'], [
          max(`count by (instance) (${of('varve_upstream_up')})`),
          'configured'
        ]],
        { decimals: 0 }
      ),
      stat(
        'Fenced',
        'Nodes that a replica does not ask as they tell of another chain; /readyz says why, and one that ' +
          'stays fenced is configured wrongly or broken.',
        [[max(sum(state('fenced'), 'instance')), 'fenced']],
        { decimals: 0, base: 'green', steps: [[1, 'red']] }
      ),
      stat(
        'Position age',
        'How long ago a node last confirmed where the chain stands, on the replica where that is longest; ' +
          'above some seconds no node answers.',
        [[max(of('varve_ledger_position_age_seconds')), 'age']],
        { unit: 's', decimals: 1, base: 'green', steps: [[5, 'yellow'], [30, 'red']] }
      ),
      stat(
        'Busiest node',
        'The most of what may be asked at once that is asked of a node; near 100 % reads wait for their ' +
          'turn: raise maxConcurrent, or add a node.',
        [[max(`${of('varve_upstream_under_way')} / ${of('varve_upstream_max_concurrent')}`), 'busiest']],
        { unit: 'percentunit', decimals: 0, base: 'green', steps: [[0.7, 'yellow'], [0.95, 'red']] }
      ),
      stat(
        'Stale latest',
        'Answers to moving reads in the time shown that came from behind a position already shown; where ' +
          'they are many, the only nodes that answer lag.',
        [[sum(increase('varve_stale_latest_total')), 'stale']],
        { decimals: 0, base: 'green', steps: [[1, 'yellow']] }
      ),
      stat(
        'Chain resets',
        'Times in the time shown that the chain turned out to be another one, and all that was kept was let ' +
          'go; it belongs to test networks alone.',
        [[max(increase('varve_chain_resets_total')), 'resets']],
        { decimals: 0, base: 'green', steps: [[1, 'red']] }
      )
    ]],
    ['How they are', [
      8,
      states(
        'State',
        'up: answers; unknown: not heard of yet; resting: has answered 429; fenced: of another chain; down: ' +
          'does not answer as a node does; of two replicas that differ the worse is shown, and the log and ' +
          '/readyz of that replica have the reason.',
        [[max(named.map(([name], at) => `${state(name)} * ${at + 1}`).join(' or '), 'upstream'), '{{upstream}}']],
        named
      ),
      lines(
        'What went wrong',
        'Questions a second that a node answered 429 or 5xx, or not at all, by how it failed; busy and ' +
          'exhausted are limits of this side, all else is the node or the way to it.',
        [[sum(rate(asked, ...failed), 'upstream', 'status'), '{{upstream}} {{status}}']],
        { unit: 'reqps', none: '0' }
      ),
      lines(
        'Answers by status',
        'Questions a second by what nodes answered, or how they failed; 404 and 410 are answers like others.',
        [[sum(rate(asked), 'status'), '{{status}}']],
        { unit: 'reqps', stacked: true }
      )
    ]],
    ['Where they stand', [
      8,
      lines(
        'Position',
        'The newest version of each node; a line that stops is a node that does not follow the chain any more.',
        [[max(of('varve_upstream_version'), 'upstream'), '{{upstream}}']],
        { isFromZero: false }
      ),
      lines(
        'Lag',
        'Versions by which each node is behind the position shown to clients; one that keeps growing is a ' +
          'node that cannot keep up, and gets no latest reads meanwhile.',
        [[max(of('varve_upstream_lag_versions'), 'upstream'), '{{upstream}}']]
      ),
      lines(
        'Oldest version',
        'The oldest version that each node has; only the lowest line serves the oldest history, so that ' +
          'reads of it are lost with that node.',
        [[max(of('varve_upstream_oldest_version'), 'upstream'), '{{upstream}}']],
        { isFromZero: false }
      ),
      lines(
        'Window',
        'Versions that each node has, from its oldest to its newest; a step down is a node that was pruned ' +
          'or set up anew.',
        [[max(`${of('varve_upstream_version')} - ${of('varve_upstream_oldest_version')}`, 'upstream'), '{{upstream}}']]
      )
    ]],
    ['How fast they answer', [
      8,
      lines(
        'Latency',
        'What half of the answers of each node, and all but one in a hundred, took; the fleet asks slower ' +
          'nodes less, so one slow line alone does little harm.',
        [[quantile(0.5, 'varve_upstream_request_duration_seconds', ['upstream']), '{{upstream}} p50'], [
          quantile(0.99, 'varve_upstream_request_duration_seconds', ['upstream']),
          '{{upstream}} p99'
        ]],
        { unit: 's', none: 'nothing asked' }
      ),
      lines(
        'Asked, by node',
        'Questions a second that each node was asked; a node that is well and idle is furthest or slowest, ' +
          'or lacks what is asked for.',
        [[sum(rate('varve_upstream_request_duration_seconds_count'), 'upstream'), '{{upstream}}']],
        { unit: 'reqps', stacked: true }
      ),
      lines(
        'Hedges',
        'Reads a second that a second node was asked for too as the first took long: won, its answer was ' +
          'taken; lost, that of the first was; failed, neither; hedges that mostly lose save nothing, so set ' +
          'hedge.share lower.',
        [[sum(rate('varve_hedges_total'), 'result'), '{{result}}']],
        { unit: 'reqps', stacked: true }
      )
    ]],
    ['How much they are asked', [
      8,
      lines(
        'Under way, by node',
        'Requests that are under way to each node, of all replicas; where a line stays flat at the most that ' +
          'is allowed, reads wait.',
        [[sum(of('varve_upstream_under_way'), 'upstream'), '{{upstream}}'], [
          sum(of('varve_upstream_max_concurrent'), 'upstream'),
          '{{upstream}} at most'
        ]]
      ),
      lines(
        'Waiting for a turn',
        'Reads that wait for their turn at each node; where it is not 0 for long, raise maxConcurrent or ' +
          'requestsPerSecond, or add a node.',
        [[sum(of('varve_upstream_waiting'), 'upstream'), '{{upstream}}']],
        { soft: 10 }
      ),
      lines(
        'Had no turn',
        'Reads a second that got no turn at a node: too many waited, or it did not come in time; with no ' +
          'other node their clients were answered 503.',
        [[sum(rate(asked, 'status="busy"'), 'upstream'), '{{upstream}}']],
        { unit: 'reqps', none: '0' }
      ),
      lines(
        'Waits for a version',
        'Reads a second that waited for the nodes to reach a version: reached, they did; timeout, not in ' +
          'time; no_place, too many waited already; many timeouts mean nodes that lag.',
        [[sum(rate('varve_version_waits_total'), 'result'), '{{result}}'], [
          sum(of('varve_waiting_for_version')),
          'waiting now'
        ]]
      )
    ]]
  ]
})
