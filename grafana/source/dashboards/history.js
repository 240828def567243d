import { dashboard } from '../dashboard.js'
import { heatmap, lines, stat } from '../forms.js'
import { increase, max, min, of, pace, quantile, rate, sum } from '../queries.js'

const pruned = 'varve_pruned_requests_total'
const newest = of('varve_ledger_version')
const oldest = of('varve_ledger_oldest_version')
const lowestRequested = of('varve_lowest_requested_version')
const day = 86_400

export default dashboard({
  uid: 'varve-history',
  title: 'varve: is history being lost?',
  description: 'Reads of pruned history, and the time until other history that clients read is pruned.',
  from: 'now-6h',
  sections: [
    ['In the time shown', [
      4,
      stat(
        'Lost',
        'Reads that got 410, from varve or an upstream, because every upstream has pruned the version; above ' +
          '0, those clients need an archive node as another upstream.',
        [[sum(increase(pruned, 'answer!="cache"')), '410']],
        { decimals: 0, base: 'green', steps: [[1, 'yellow']] }
      ),
      stat(
        'Pruned but cached',
        'Reads of pruned history that varve served from its cache; the more, the better.',
        [[sum(increase(pruned, 'answer="cache"')), 'saved']],
        { decimals: 0, base: 'green' }
      ),
      stat(
        'Window',
        'Versions from the oldest that any upstream has to the newest, on the replica with the fewest; a ' +
          'shrinking window means that an upstream prunes more than before.',
        [[min(`${newest} - ${oldest}`), 'versions']]
      ),
      stat(
        'Window in time',
        'Age at which a version leaves the window, at the growth rate of the chain in the time shown; if ' +
          'clients look back further, give an upstream a longer window.',
        [[min(`(${newest} - ${oldest}) / (${pace(newest)} > 0)`), 'window']],
        { unit: 's', none: 'the chain does not grow' }
      ),
      stat(
        'Margin above the window\'s end',
        'Versions between the end of the window and the lowest version that clients requested in the last ' +
          'minutes; near 0 their next reads are lost.',
        [[min(`${lowestRequested} - ${oldest}`), 'versions']]
      ),
      stat(
        'Pruned in',
        'Time until the oldest versions that clients request now are pruned, at the rate of the time shown;' +
          ' act before 0 with a longer window or an archive node.',
        [[min(`(${lowestRequested} - ${oldest}) / (${pace(oldest)} > 0)`), 'pruned in']],
        { unit: 's', base: 'red', steps: [[day / 24, 'yellow'], [day, 'green']], none: 'the window does not move' }
      )
    ]],
    ['Reads of pruned history', [
      8,
      lines(
        'Reads of pruned history by source',
        'Reads per second below the window: cache, varve had it stored; local, varve responded 410; ' +
          'upstream, an upstream responded 410; all but cache are lost to the client.',
        [[sum(rate(pruned), 'answer'), '{{answer}}']],
        { unit: 'reqps', stacked: true }
      ),
      lines(
        '410 by endpoint',
        'Reads per second that got 410, by endpoint; it shows which clients look back too far.',
        [[sum(rate(pruned, 'answer!="cache"'), 'endpoint'), '{{endpoint}}']],
        { unit: 'reqps', stacked: true }
      )
    ], [
      9,
      heatmap(
        'Distance below the window',
        'Number of reads by their distance below the oldest version; a somewhat longer window serves the ' +
          'near ones, only an archive node the far ones.',
        sum(`increase(${of('varve_pruned_distance_versions_bucket')}[$__rate_interval])`, 'le')
      ),
      lines(
        'Distance below the window, p50 and p90',
        'Half of the reads below the window, and nine in ten, were nearer to it than this many versions; ' +
          'the window would have to be that much longer to serve them.',
        [[quantile(0.5, 'varve_pruned_distance_versions', []), 'p50'], [
          quantile(0.9, 'varve_pruned_distance_versions', []),
          'p90'
        ]],
        { none: 'no such reads' }
      ),
      lines(
        'Distance below the window, p90 by endpoint',
        'Nine in ten reads below the window were nearer to it than this many versions, by endpoint; the ' +
          'highest line needs the longest window.',
        [[quantile(0.9, 'varve_pruned_distance_versions', ['endpoint']), '{{endpoint}}']],
        { none: 'no such reads' }
      )
    ]],
    ['The window over time', [
      8,
      lines(
        'Versions',
        'The newest version, the oldest that any upstream has, and the lowest that clients requested ' +
          'recently; reads are about to be lost where the oldest comes near the lowest.',
        [[max(newest), 'newest'], [min(oldest), 'oldest'], [min(lowestRequested), 'lowest requested']],
        { isFromZero: false }
      ),
      lines(
        'Window in versions',
        'Versions from the oldest that any upstream has to the newest, by replica; a step down means that ' +
          'an upstream with a longer history is gone.',
        [[`${newest} - ${oldest}`, '{{instance}}']]
      ),
      lines(
        'Window in blocks',
        'Blocks from the oldest that any upstream has to the newest, by replica; read it as the window in ' +
          'versions, for reads of blocks.',
        [[`${of('varve_ledger_block_height')} - ${of('varve_ledger_oldest_block_height')}`, '{{instance}}']]
      )
    ], [
      8,
      lines(
        'Pruned in, over time',
        'Time until the oldest versions that clients request are pruned, as recorded by the rules for the alerts; a ' +
          'line that falls to 0 shows when their reads begin to be lost.',
        [[min(of('instance:varve_history_left:seconds')), 'pruned in']],
        { unit: 's', none: 'the window does not move, or no rules' }
      ),
      lines(
        'Growth and pruning',
        'Versions per second by which the chain grows, and by which the end of the window follows; the ' +
          'window shrinks while the end moves faster.',
        [[max(`deriv(${newest}[$__rate_interval])`), 'newest'], [max(`deriv(${oldest}[$__rate_interval])`), 'oldest']],
        { unit: 'ops' }
      )
    ]]
  ]
})
