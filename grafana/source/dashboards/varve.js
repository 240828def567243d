import { dashboard } from '../dashboard.js'
import { lines, stat } from '../forms.js'
import { increase, max, min, of, quantile, rate, sum } from '../queries.js'

const onOff = [{
  type: 'value',
  options: { 0: { text: 'does not answer', color: 'red', index: 0 }, 1: { text: 'answers', color: 'green', index: 1 } }
}]
// Of replicas without one nothing is to answer.
const redisUp = `${of('varve_redis_up')} and ${of('varve_redis_configured')} == 1`
const wrong = { decimals: 0, base: 'green', steps: [[1, 'red']] }

export default dashboard({
  uid: 'varve',
  title: 'varve: is varve well?',
  description: 'The processes, the cache, Redis, and what clients are refused.',
  from: 'now-1h',
  sections: [
    ['Now, and in the time shown', [
      4,
      stat(
        'Processes',
        'Processes that answer reads, of all replicas; where fewer than there should be, see the log of the ' +
          'replica that is missing.',
        [[`${sum(of('varve_workers'))} or vector(0)`, 'processes']],
        { decimals: 0, base: 'red', steps: [[1, 'green']] }
      ),
      stat(
        'Releases',
        'How many replicas run which release of varve; two of them belong to an upgrade under way alone; a ' +
          'sandbox, of made-up data, belongs nowhere.',
        [[`count by (version) (${of('varve_build_info')})`, '{{version}}'], [
          sum(of('varve_sandbox')),
          'sandbox'
        ]],
        { decimals: 0 }
      ),
      stat(
        'Redis',
        'Whether Redis answers every replica that has one configured; while it is away each of them goes on ' +
          'by itself, so look at its machine and the way to it.',
        [[min(redisUp), 'redis']],
        { mappings: onOff, base: 'red', steps: [[1, 'green']], none: 'none configured' }
      ),
      stat(
        'Memory full',
        'What part of the memory for answers is taken, of all replicas; a full cache is no fault, look at ' +
          'the hit rate and at evictions.',
        [[`${sum(of('varve_cache_bytes'))} / ${sum(of('varve_cache_max_bytes'))}`, 'full']],
        { unit: 'percentunit', decimals: 0 }
      ),
      stat(
        'Wrong answers found',
        'Kept answers that an audit found to be different from what a node says; any is to be looked into at ' +
          'once: the log names the read, the node and both digests.',
        [[sum(increase('varve_audit_total', 'result="different"')), 'different']],
        wrong
      ),
      stat(
        'Unforeseen',
        'Failures that nobody foresaw; any is a fault of varve worth a report, with its line of the log.',
        [[sum(increase('varve_unhandled_total')), 'failures']],
        wrong
      ),
      stat(
        'Certificate ends in',
        'How long the certificate of the public listener is valid, on the replica where it ends first; renew ' +
          'it before a week is left.',
        [[min(`${of('varve_tls_certificate_not_after_seconds')} - time()`), 'ends in']],
        { unit: 's', base: 'red', steps: [[7 * 86_400, 'yellow'], [21 * 86_400, 'green']], none: 'no TLS' }
      ),
      stat(
        'Workers lost',
        'Worker processes that ended by themselves, or hung, and were replaced; the log says how each ended, ' +
          'and more than one in a while means too little memory or a fault.',
        [[sum(increase('varve_workers_lost_total')), 'lost']],
        wrong
      )
    ]],
    ['The machine', [
      8,
      lines(
        'Memory of the process',
        'Resident memory of each replica; a full cache takes half as much again as cache.memory.maxMb, and ' +
          'one that keeps growing above that is worth a report.',
        [[max(of('process_resident_memory_bytes'), 'instance'), '{{instance}}']],
        { unit: 'bytes' }
      ),
      lines(
        'Processor',
        'Cores that each replica uses; one process cannot use much more than one, so near 1 for each worker ' +
          'is the bound: add workers or replicas.',
        [[sum(rate('process_cpu_seconds_total'), 'instance'), '{{instance}}']]
      ),
      lines(
        'Event loop',
        'How late the event loop of each replica was, but for one time in a hundred; above limits.loopLagMs ' +
          'misses are refused, so add a worker or a replica.',
        [[max(of('nodejs_eventloop_lag_p99_seconds'), 'instance'), '{{instance}}']],
        { unit: 's', line: 0.1 }
      )
    ]],
    ['What is kept', [
      8,
      lines('Bytes kept', 'What kept answers cost in memory, and may cost; evictions begin where they meet.', [[
        sum(of('varve_cache_bytes'), 'tier'),
        '{{tier}}'
      ], [sum(of('varve_cache_max_bytes'), 'tier'), '{{tier}} at most']], { unit: 'bytes' }),
      lines(
        'Entries',
        'Answers that are kept in memory, of all replicas; a sudden fall to 0 is a purge, a reset of the ' +
          'chain or a new start.',
        [[sum(of('varve_cache_entries'), 'tier'), '{{tier}}']]
      ),
      lines(
        'Writes and evictions',
        'Answers a second that were kept, and that made room for others; evictions that keep up with writes ' +
          'while the hit rate suffers ask for more memory.',
        [[sum(rate('varve_cache_writes_total'), 'tier'), '{{tier}} writes'], [
          sum(rate('varve_cache_evictions_total'), 'tier'),
          '{{tier}} evictions'
        ]],
        { unit: 'ops' }
      ),
      lines(
        'Not stored, by reason',
        'Responses a second that varve forwarded and did not store, and why; newest_block and short_page are ' +
          'usual, wrong_chain, wrong_type or vetoed speak of a gateway, too_large of cache.maxEntryMb.',
        [[sum(rate('varve_not_stored_total'), 'reason'), '{{reason}}']],
        { unit: 'reqps', stacked: true }
      )
    ]],
    ['Is it true?', [
      7,
      lines(
        'Audits',
        'Hits a second that were read again from a node: equal; different, to be looked into at once; ' +
          'rendering, both can be right; unavailable, nobody could tell.',
        [[sum(rate('varve_audit_total'), 'result'), '{{result}}']],
        { unit: 'ops', stacked: true }
      ),
      lines(
        'Corrupt entries',
        'Entries a second that were found in Redis and were not what was written there; any means that ' +
          'something else writes to that Redis, or that it loses bytes.',
        [[sum(rate('varve_corrupt_entries_total')), 'corrupt']],
        { unit: 'ops', soft: 1 }
      )
    ]],
    ['What Redis does', [
      8,
      lines(
        'Redis answers',
        'Whether Redis answers each replica that has one configured: 1, or 0; one replica alone at 0 has ' +
          'lost its way to it.',
        [[min(redisUp, 'instance'), '{{instance}}']],
        { max: 1, none: 'none configured' }
      ),
      lines(
        'Asked, by operation',
        'What Redis was asked, a second, by operation; get and find are looks for what others have read, set ' +
          'is what this side gives.',
        [[sum(rate('varve_redis_duration_seconds_count'), 'operation'), '{{operation}}']],
        { unit: 'ops', stacked: true }
      ),
      lines(
        'Errors by operation',
        'What Redis did not do, or not in time, a second, by operation; see its memory, its load and the way ' +
          'to it, and cache.redis.timeoutMs.',
        [[sum(rate('varve_redis_errors_total'), 'operation'), '{{operation}}']],
        { unit: 'ops', stacked: true }
      ),
      lines(
        'Latency by operation',
        'One operation in a hundred took longer than this; near cache.redis.timeoutMs most looks are given up.',
        [[quantile(0.99, 'varve_redis_duration_seconds', ['operation']), '{{operation}}']],
        { unit: 's', none: 'nothing asked' }
      )
    ]],
    ['Clients', [
      8,
      lines(
        'Connections',
        'Connections of clients that are open, on each replica; a line that stays flat at limits.connections ' +
          'has newcomers closed.',
        [[max(of('varve_connections'), 'instance'), '{{instance}}']]
      ),
      lines(
        'Cut off',
        'Connections a second that were ended before the client would have: handshake, head and body are too ' +
          'slow, reading read nothing for 120 s, memory was the slowest while memory in flight was short, ' +
          'ahead sent too much at once, room was idle and made room, full found none.',
        [[sum(rate('varve_connections_cut_total'), 'reason'), '{{reason}}']],
        { unit: 'ops', stacked: true }
      ),
      lines(
        'Limited',
        'Requests a second that were refused as their client has asked for too much, by what it is known by; ' +
          'raise limits.client or the limit of its key if it should not be.',
        [[sum(rate('varve_limited_total'), 'by'), 'by {{by}}']],
        { unit: 'reqps', stacked: true }
      ),
      lines(
        'Shed',
        'Reads a second that were refused since the event loop was late; hits are still served, and a worker ' +
          'or a replica more is needed.',
        [[sum(rate('varve_shed_total')), 'shed']],
        { unit: 'reqps', soft: 1 }
      )
    ]],
    ['What befell it', [
      7,
      lines(
        'Failures and losses',
        'Times in the last interval that something failed which nobody foresaw, that a worker was lost, that ' +
          'no file descriptor was left, or that a log line found no room; each has a line in the log but the ' +
          'last, which has no room for one.',
        [
          [sum(inInterval('varve_unhandled_total'), 'kind'), 'unhandled {{kind}}'],
          [sum(inInterval('varve_workers_lost_total')), 'workers lost'],
          [sum(inInterval('varve_descriptors_exhausted_total')), 'descriptors exhausted'],
          [sum(inInterval('varve_log_lines_lost_total')), 'log lines lost']
        ],
        { soft: 1 }
      ),
      lines(
        'Configuration read anew',
        'Times in the last interval that the configuration was read anew, and exchanged or refused, and ' +
          'whether it was understood the last time; what was refused is named in the log, and the old one ' +
          'stays until it is mended.',
        [[sum(inInterval('varve_config_reloads_total'), 'result'), '{{result}}'], [
          min(of('varve_config_last_reload_successful')),
          'understood'
        ]],
        { soft: 1 }
      )
    ]]
  ]
})

function inInterval (metric) {
  return `increase(${of(metric)}[$__rate_interval])`
}
