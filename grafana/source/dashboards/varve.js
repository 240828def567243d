import { dashboard } from '../dashboard.js'
import { lines, stat } from '../forms.js'
import { increase, max, min, of, quantile, rate, sum } from '../queries.js'

const onOff = [{
  type: 'value',
  options: { 0: { text: 'down', color: 'red', index: 0 }, 1: { text: 'up', color: 'green', index: 1 } }
}]
const memory = 'tier="memory"'
const wrong = { decimals: 0, base: 'green', steps: [[1, 'red']] }

export default dashboard({
  uid: 'varve',
  title: 'varve: is varve healthy?',
  description: 'Processes, cache, Redis, and connections and requests that varve rejected.',
  from: 'now-1h',
  sections: [
    ['Now, and in the time shown', [
      4,
      stat(
        'Processes',
        'Processes that serve reads, of all replicas; if some are missing, see the log of that replica.',
        [[`${sum(of('varve_workers'))} or vector(0)`, 'processes']],
        { decimals: 0, base: 'red', steps: [[1, 'green']] }
      ),
      stat(
        'Releases',
        'Replicas by release of varve; two releases are normal only during an upgrade, and a sandbox, with ' +
          'generated data, never is.',
        [[`count by (version) (${of('varve_build_info')})`, '{{version}}'], [
          sum(of('varve_sandbox')),
          'sandbox'
        ]],
        { decimals: 0 }
      ),
      stat(
        'Redis',
        'Redis as every replica with a configured one sees it; while it is down replicas continue without it, so ' +
          'check its machine and the network.',
        [[min(of('varve_redis_up')), 'redis']],
        { mappings: onOff, base: 'red', steps: [[1, 'green']], none: 'none configured' }
      ),
      stat(
        'Memory full',
        'Share of the cache memory in use, of all replicas; a full cache is no fault, see the hit rate and ' +
          'the evictions.',
        [[`${sum(of('varve_cache_bytes', memory))} / ${sum(of('varve_cache_max_bytes', memory))}`, 'full']],
        { unit: 'percentunit', decimals: 0 }
      ),
      stat(
        'Wrong hits found',
        'Cached responses that an audit found to differ from an upstream; investigate each at once: the log' +
          ' names the read, the upstream and both digests.',
        [[sum(increase('varve_audit_total', 'result="different"')), 'different']],
        wrong
      ),
      stat(
        'Unexpected errors',
        'Unexpected errors of varve; each is a bug worth a report, with its log line.',
        [[sum(increase('varve_unhandled_total')), 'failures']],
        wrong
      )
    ], [
      4,
      stat(
        'Chains',
        'Replicas by chain and space; one chain has one space, except for the moments of a chain reset or ' +
          'a purge of everything.',
        [[`count by (chain_id, space) (${of('varve_chain_info')})`, '{{chain_id}}, space {{space}}']],
        { decimals: 0, none: 'no chain yet' }
      ),
      stat(
        'Certificate expires in',
        'Time until the certificate of the public listener expires, on the replica where it expires first; ' +
          'renew it before the last week.',
        [[min(`${of('varve_tls_certificate_not_after_seconds')} - time()`), 'expires in']],
        { unit: 's', base: 'red', steps: [[7 * 86_400, 'yellow'], [21 * 86_400, 'green']], none: 'no TLS' }
      ),
      stat(
        'Workers lost',
        'Worker processes that crashed or hung and were replaced; the log says how each ended, and repeated' +
          ' losses mean too little memory or a bug.',
        [[sum(increase('varve_workers_lost_total')), 'lost']],
        wrong
      )
    ]],
    ['Process', [
      8,
      lines(
        'Memory of the process',
        'Resident memory of each replica; a full cache takes one and a half times cache.memory.maxMb, and ' +
          'growth beyond that is worth a report.',
        [[max(of('process_resident_memory_bytes'), 'instance'), '{{instance}}']],
        { unit: 'bytes' }
      ),
      lines(
        'CPU',
        'CPU cores that each replica uses; a process uses little more than one, so near 1 for each worker ' +
          'add workers or replicas.',
        [[sum(rate('process_cpu_seconds_total'), 'instance'), '{{instance}}']]
      ),
      lines(
        'Event loop',
        'Lag of the event loop of each replica, p99; above limits.loopLagMs varve sheds reads that are no ' +
          'hits, so add a worker or a replica.',
        [[max(of('nodejs_eventloop_lag_p99_seconds'), 'instance'), '{{instance}}']],
        { unit: 's', line: 0.1 }
      )
    ]],
    ['Cache', [
      8,
      lines('Cached bytes', 'Size of cached entries, and its limit; evictions begin where they meet.', [[
        sum(of('varve_cache_bytes'), 'tier'),
        '{{tier}}'
      ], [sum(of('varve_cache_max_bytes'), 'tier'), '{{tier}} limit']], { unit: 'bytes' }),
      lines(
        'Entries',
        'Cached entries of all replicas; a sudden fall to 0 in memory is a purge, a chain reset or a ' +
          'restart.',
        [[sum(of('varve_cache_entries'), 'tier'), '{{tier}}']]
      ),
      lines(
        'Writes and evictions',
        'Entries per second that were stored, and that were evicted; if evictions keep up with writes and ' +
          'the hit rate falls, add memory.',
        [[sum(rate('varve_cache_writes_total'), 'tier'), '{{tier}} writes'], [
          sum(rate('varve_cache_evictions_total'), 'tier'),
          '{{tier}} evictions'
        ]],
        { unit: 'ops' }
      )
    ], [
      8,
      lines(
        'Not stored by reason',
        'Responses per second that varve forwarded and did not store, by reason; newest_block and ' +
          'short_page are usual, wrong_chain, wrong_type or vetoed point to a gateway, too_large to ' +
          'cache.maxEntryMb.',
        [[sum(rate('varve_not_stored_total'), 'reason'), '{{reason}}']],
        { unit: 'reqps', stacked: true }
      ),
      lines(
        'Misses by cause',
        'Misses per second by what became of an earlier entry; many evicted ones ask for more memory or a disk ' +
          'tier, expired ones for a longer time to live.',
        [[sum(rate('varve_misses_total', 'cause!="moving"'), 'cause'), '{{cause}}']],
        { unit: 'reqps', stacked: true }
      )
    ]],
    ['Correctness', [
      7,
      lines(
        'Audits',
        'Hits per second that were compared with an upstream: equal; different, to investigate at once; ' +
          'rendering, both can be right; unavailable, no upstream could be compared.',
        [[sum(rate('varve_audit_total'), 'result'), '{{result}}']],
        { unit: 'ops', stacked: true }
      ),
      lines(
        'Corrupt entries',
        'Entries per second from disk or Redis that failed verification; any means that another program ' +
          'writes there, or that it loses bytes.',
        [[sum(rate('varve_corrupt_entries_total')), 'corrupt']],
        { unit: 'ops', soft: 1 }
      )
    ]],
    ['Redis tier', [
      8,
      lines(
        'Redis reachable',
        '1 if Redis is reachable from a replica that has one configured, else 0; a single replica at 0 has ' +
          'a network problem.',
        [[min(of('varve_redis_up'), 'instance'), '{{instance}}']],
        { max: 1, none: 'none configured' }
      ),
      lines(
        'Redis operations',
        'Redis operations per second; get and find look for entries of other replicas, set stores entries ' +
          'for them.',
        [[sum(rate('varve_redis_duration_seconds_count'), 'operation'), '{{operation}}']],
        { unit: 'ops', stacked: true }
      ),
      lines(
        'Redis errors',
        'Redis operations per second that failed or timed out; see its memory, its load, the network and ' +
          'cache.redis.timeoutMs.',
        [[sum(rate('varve_redis_errors_total'), 'operation'), '{{operation}}']],
        { unit: 'ops', stacked: true }
      )
    ], [
      8,
      lines(
        'Redis latency',
        'p99 of Redis operations; near cache.redis.timeoutMs most look-ups time out and count as misses.',
        [[quantile(0.99, 'varve_redis_duration_seconds', ['operation']), '{{operation}}']],
        { unit: 's', none: 'no operations' }
      ),
      lines(
        'Leases',
        'Misses (fetch) and readings of the ledger (tail) per second for which replicas settled who asks: taken, ' +
          'this one; waited, another one did; not_stored, its response was of no use to others; lapsed, it was ' +
          'silent longer than its lease; failed, Redis did not respond.',
        [[sum(rate('varve_leases_total'), 'kind', 'result'), '{{kind}} {{result}}']],
        { unit: 'reqps', stacked: true }
      )
    ]],
    ['Disk tier', [
      7,
      lines(
        'Disk errors',
        'Operations per second on the disk tier that failed or timed out; see the space and the health of ' +
          'the file system below cache.disk.path.',
        [[sum(rate('varve_disk_errors_total'), 'operation'), '{{operation}}']],
        { unit: 'ops', stacked: true }
      ),
      lines(
        'Dropped writes',
        'Entries per second that were not stored on the disk, because it was too slow, full or rejected ' +
          'writes; responses do not change.',
        [[sum(rate('varve_cache_writes_dropped_total'), 'tier'), '{{tier}}']],
        { unit: 'ops', soft: 1 }
      )
    ]],
    ['Clients', [
      8,
      lines(
        'Connections',
        'Open client connections of each replica, and those that wait until varve accepts them; at ' +
          'limits.connections new ones replace idle ones or are closed.',
        [
          [max(of('varve_connections'), 'instance'), '{{instance}}'],
          [max(of('varve_connections_waiting'), 'instance'), 'waiting {{instance}}']
        ]
      ),
      lines(
        'Connections closed',
        'Client connections per second that varve closed: handshake, head and body timed out; stalled read ' +
          'nothing for 120 s; memory was the slowest reader while slow readers held half of limits.inFlightMb; ' +
          'pipelining sent too many requests at once; idle was replaced at the limit; connection_limit was ' +
          'new.',
        [[sum(rate('varve_connections_cut_total'), 'reason'), '{{reason}}']],
        { unit: 'ops', stacked: true }
      ),
      lines(
        'Rate limited',
        'Requests per second that varve rejected with 429, by the kind of client; raise limits.client or ' +
          'the limit of the key if it is too low.',
        [[sum(rate('varve_limited_total'), 'by'), 'by {{by}}']],
        { unit: 'reqps', stacked: true }
      )
    ], [
      8,
      lines(
        'Bytes in flight',
        'Bytes outside the cache, and their limit; beyond three quarters responses are not stored, beyond all of it ' +
          'misses are rejected.',
        [[sum(of('varve_in_flight_bytes')), 'used'], [sum(of('varve_in_flight_max_bytes')), 'limit']],
        { unit: 'bytes' }
      ),
      lines(
        'Severity',
        'Worst level of all replicas, as /readyz shows it: 0 green, 1 amber, 2 red.',
        [[`max(${of('varve_level')})`, 'level']],
        { soft: 2 }
      ),
      lines(
        'Rejected for want of bytes',
        'Requests per second that varve rejected because limits.inFlightMb was used up; hits are still served.',
        [[sum(rate('varve_in_flight_rejected_total')), 'rejected']],
        { unit: 'reqps', soft: 1 }
      ),
      lines(
        'Load shed',
        'Reads per second that varve rejected because the event loop was late; hits are still served, but ' +
          'add a worker or a replica.',
        [[sum(rate('varve_shed_total')), 'shed']],
        { unit: 'reqps', soft: 1 }
      )
    ]],
    ['Events', [
      7,
      lines(
        'Failures and losses',
        'Unexpected errors, lost workers, exhausted file descriptors, lost log lines and lost spans of traces in the ' +
          'last interval; all but lost log lines have a log line.',
        [
          [sum(inInterval('varve_unhandled_total'), 'kind'), 'unhandled {{kind}}'],
          [sum(inInterval('varve_workers_lost_total')), 'workers lost'],
          [sum(inInterval('varve_descriptors_exhausted_total')), 'descriptors exhausted'],
          [sum(inInterval('varve_log_lines_lost_total')), 'log lines lost'],
          [`${sum(inInterval('varve_trace_spans_total', 'result!="sent"'))} or vector(0)`, 'trace spans lost']
        ],
        { soft: 1 }
      ),
      lines(
        'Configuration reloads',
        'Reloads in the last interval by result, and 1 while the last reload succeeded; the log names the ' +
          'mistakes of a rejected one, and the old configuration stays in use.',
        [[sum(inInterval('varve_config_reloads_total'), 'result'), '{{result}}'], [
          min(of('varve_config_last_reload_successful')),
          'last reload succeeded'
        ]],
        { soft: 1 }
      )
    ]]
  ]
})

function inInterval (metric, ...matches) {
  return `increase(${of(metric, ...matches)}[$__rate_interval])`
}
