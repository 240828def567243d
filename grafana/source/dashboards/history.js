import { dashboard } from '../dashboard.js'
import { heatmap, lines, stat } from '../forms.js'
import { increase, max, min, of, pace, quantile, rate, sum } from '../queries.js'

const pruned = 'varve_pruned_requests_total'
const newest = of('varve_ledger_version')
const oldest = of('varve_ledger_oldest_version')
const asked = of('varve_oldest_asked_version')
const moves = `(${pace(oldest)} > 0)`
const day = 86_400

export default dashboard({
  uid: 'varve-history',
  title: 'varve: is history being lost?',
  description: 'What clients ask for that no node has any more, and how long what they ask for will be there.',
  from: 'now-6h',
  sections: [
    ['In the time shown', [
      4,
      stat(
        'Lost',
        'Reads that were answered 410, by varve or a node, as no node has the version any more; where it is ' +
          'not 0, those clients need an archive node as one more upstream.',
        [[sum(increase(pruned, 'answer!="cache"')), '410']],
        { decimals: 0, base: 'green', steps: [[1, 'yellow']] }
      ),
      stat(
        'Saved from being lost',
        'Reads of pruned history that were answered since varve had kept it; nothing is wrong, and the more ' +
          'the better.',
        [[sum(increase(pruned, 'answer="cache"')), 'saved']],
        { decimals: 0, base: 'green' }
      ),
      stat(
        'Window',
        'Versions from the oldest that a node has to the newest; the smallest of any replica, and where it ' +
          'shrinks a node prunes more than before.',
        [[min(`${newest} - ${oldest}`), 'versions']]
      ),
      stat(
        'Window in time',
        'How long a version stays within the window at the pace at which the chain grows in the time shown; ' +
          'where it is shorter than what clients look back, give a node a longer window.',
        [[min(`(${newest} - ${oldest}) / (${pace(newest)} > 0)`), 'window']],
        { unit: 's', none: 'the chain does not grow' }
      ),
      stat(
        'Oldest asked for, above the end',
        'How many versions the lowest one that clients asked for in the last minutes is above the end of the ' +
          'window; near 0 their next reads are lost.',
        [[min(`${asked} - ${oldest}`), 'versions']]
      ),
      stat(
        'Falls out in',
        'When the oldest versions that clients ask for now fall out of the window, at the pace at which it ' +
          'has moved in the time shown; act before it is 0: a longer window, or an archive node.',
        [[min(`(${asked} - ${oldest}) / ${moves}`), 'falls out in']],
        { unit: 's', base: 'red', steps: [[day / 24, 'yellow'], [day, 'green']], none: 'the window does not move' }
      )
    ]],
    ['What is asked for that is gone', [
      8,
      lines(
        'Reads of pruned history, by who answered',
        'Reads a second below the window: cache, varve still had it; local, varve said 410; upstream, a node ' +
          'said 410; whatever is not cache is lost to its client.',
        [[sum(rate(pruned), 'answer'), '{{answer}}']],
        { unit: 'reqps', stacked: true }
      ),
      lines(
        '410 by endpoint',
        'Reads a second that were answered 410, by what was asked for; it tells which of the clients look ' +
          'back too far.',
        [[sum(rate(pruned, 'answer!="cache"'), 'endpoint'), '{{endpoint}}']],
        { unit: 'reqps', stacked: true }
      )
    ], [
      9,
      heatmap(
        'How far below the window',
        'How many reads were how many versions below the oldest one; those of a short distance are won by a ' +
          'somewhat longer window, those of a long one by an archive node alone.',
        sum(`increase(${of('varve_pruned_distance_versions_bucket')}[$__rate_interval])`, 'le')
      ),
      lines(
        'How far below the window, by part of the reads',
        'Half of the reads below the window, and nine in ten, were nearer to it than this many versions; the ' +
          'window would have to be so much longer to serve them.',
        [[quantile(0.5, 'varve_pruned_distance_versions', []), 'half'], [
          quantile(0.9, 'varve_pruned_distance_versions', []),
          'nine in ten'
        ]],
        { none: 'no such reads' }
      ),
      lines(
        'Nine in ten by endpoint',
        'Nine in ten reads below the window were nearer to it than this many versions, by what was asked ' +
          'for; the highest line needs the longest window.',
        [[quantile(0.9, 'varve_pruned_distance_versions', ['endpoint']), '{{endpoint}}']],
        { none: 'no such reads' }
      )
    ]],
    ['Where the window is, and where it goes', [
      8,
      lines(
        'Versions',
        'The newest version, the oldest that a node has, and the lowest that clients asked for of late; ' +
          'where the oldest comes near the lowest, reads are about to be lost.',
        [[max(newest), 'newest'], [min(oldest), 'oldest'], [min(asked), 'oldest asked for']],
        { isFromZero: false }
      ),
      lines(
        'Window in versions',
        'Versions from the oldest that a node has to the newest, on each replica; a step down means that a ' +
          'node with a longer history is gone.',
        [[`${newest} - ${oldest}`, '{{instance}}']]
      ),
      lines(
        'Window in blocks',
        'Blocks from the oldest that a node has to the newest, on each replica; it goes with the versions, ' +
          'and says the same of reads of blocks.',
        [[`${of('varve_ledger_block_height')} - ${of('varve_ledger_oldest_block_height')}`, '{{instance}}']]
      )
    ], [
      8,
      lines(
        'Falls out in, over time',
        'How long the oldest versions that clients ask for will still be there, at the pace of the time ' +
          'shown; a line that falls towards 0 says when their reads begin to be lost.',
        [[min(`(${asked} - ${oldest}) / ${moves}`), 'falls out in']],
        { unit: 's', none: 'the window does not move' }
      ),
      lines(
        'Pace',
        'Versions a second by which the chain grows, and by which the end of the window follows; where the ' +
          'end moves faster for long, the window shrinks.',
        [[max(`deriv(${newest}[$__rate_interval])`), 'newest'], [max(`deriv(${oldest}[$__rate_interval])`), 'oldest']],
        { unit: 'ops' }
      )
    ]]
  ]
})
