import { dashboard } from '../dashboard.js'
import { lines, stat } from '../forms.js'
import { increase, max, of, orZero, part, quantile, rate, sum } from '../queries.js'

// Counts requests by the histogram, which has fewer series than the counter with a status.
const requests = 'varve_request_duration_seconds_count'
const hits = 'outcome=~"hit_.*"'
const saved = 'varve_reads_saved_total'
// Error responses that varve makes by itself.
const ownErrors = 'outcome=~"gone|rejected|limited|unavailable"'
const cacheable = 'outcome=~"hit_.*|miss|collapsed"'
const upstreamRequests = 'varve_upstream_request_duration_seconds_count'

export default dashboard({
  uid: 'varve-helping',
  title: 'varve: is it helping?',
  description: 'Reads that varve saves its upstreams, and response times of clients.',
  from: 'now-1h',
  sections: [
    ['In the time shown', [
      4,
      stat(
        'Hit rate',
        'Share of cacheable reads that were hits: hit / (hit + miss + collapsed), without moving reads; if ' +
          'it stays low, see which endpoint misses and whether the cache is full.',
        [[
          part(
            orZero(sum(increase(requests, hits)), sum(increase(requests, cacheable))),
            sum(increase(requests, cacheable))
          ),
          'hit rate'
        ]],
        { unit: 'percentunit', decimals: 1, base: 'red', steps: [[0.3, 'yellow'], [0.7, 'green']], none: 'no reads' }
      ),
      stat(
        'Reads saved',
        'Reads served without an upstream request of their own, as hits or coalesced with another request; ' +
          '0 beside many requests means only moving reads, or an empty cache.',
        [[sum(increase(saved)), 'saved']],
        { decimals: 0 }
      ),
      stat('Requests', 'Requests from clients; at 0, check that traffic reaches varve at all.', [[
        `${sum(increase(requests))} or vector(0)`,
        'requests'
      ]], { decimals: 0 }),
      stat(
        'Upstream requests',
        'Requests that varve sent to upstreams, for clients and for itself; above the number of client ' +
          'requests, see which endpoint causes them.',
        [[`${sum(increase(upstreamRequests))} or vector(0)`, 'upstream requests']],
        { decimals: 0 }
      ),
      stat(
        '5xx responses',
        'Share of responses with status 5xx; above 0, see the dashboard of the upstreams.',
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
        '429 responses',
        'Requests that varve or an upstream rate limited; above 0, see which clients are limited on the ' +
          'dashboard of varve itself.',
        [[`${sum(increase('varve_requests_total', 'status="429"'))} or vector(0)`, '429']],
        { decimals: 0, base: 'green', steps: [[1, 'yellow']] }
      )
    ]],
    ['Replicas', [
      8,
      lines(
        'Requests by replica',
        'Requests per second of each replica, as recorded by the rules; a replica far from the others gets an uneven ' +
          'share from the load balancer.',
        [[of('instance:varve_requests:rate5m'), '{{instance}}']],
        { unit: 'reqps', none: 'no requests, or no rules' }
      ),
      lines(
        'Hit rate by replica',
        'Hit rate of each replica, as recorded by the rules; a new replica begins low and rises, one that stays low ' +
          'has a smaller cache or other clients.',
        [[of('instance:varve_hit:ratio_rate5m'), '{{instance}}']],
        { unit: 'percentunit', max: 1, none: 'no reads, or no rules' }
      ),
      lines(
        'Reads saved by replica',
        'Reads per second without an upstream request of their own, as recorded by the rules; together they are what ' +
          'all replicas save their upstreams.',
        [[of('instance:varve_upstream_reads_saved:rate5m'), '{{instance}}']],
        { unit: 'reqps', none: 'no rules' }
      ),
      lines(
        'Level by replica',
        'Level of each replica, as /readyz shows it: 0 green, 1 amber, 2 red; one above 0 alone has a problem of its ' +
          'own.',
        [[max(of('varve_level'), 'instance'), '{{instance}}']],
        { soft: 2 }
      )
    ], [
      8,
      lines(
        '5xx by replica',
        'Share of responses with status 5xx of each replica, as recorded by the rules; one far above the others ' +
          'cannot reach its upstreams.',
        [[of('instance:varve_requests_failed:ratio_rate5m'), '{{instance}}']],
        { unit: 'percentunit', none: 'no requests, or no rules' }
      ),
      lines(
        'p99 of hits by replica',
        'One hit in a hundred took longer than this on each replica, as recorded by the rules; one far above the ' +
          'others runs on a busy machine.',
        [[
          max(of('instance_outcome:varve_request_duration_seconds:p99_rate5m', 'outcome=~"hit_.*"'), 'instance'),
          '{{instance}}'
        ]],
        { unit: 's', none: 'no hits, or no rules' }
      )
    ]],
    ['Savings', [
      8,
      lines(
        'Requests by outcome',
        'Requests per second: hit, from memory or Redis; collapsed, coalesced with another request; miss, ' +
          'fetched; forwarded, moving or unknown reads; the others, responses of varve itself; many misses of ' +
          'repeated reads mean that the cache is too small.',
        [[sum(rate(requests), 'outcome'), '{{outcome}}']],
        { unit: 'reqps', stacked: true }
      ),
      lines(
        'Hit rate by endpoint',
        'hit / (hit + miss + collapsed) of each endpoint, as recorded by the rules; a single line that falls means ' +
          'that clients read new things there, or that its responses are not stored.',
        [[
          part(
            sum(of('instance_endpoint:varve_reads_hit:rate5m'), 'endpoint'),
            sum(of('instance_endpoint:varve_reads_cacheable:rate5m'), 'endpoint')
          ),
          '{{endpoint}}'
        ]],
        { unit: 'percentunit', max: 1, none: 'no reads, or no rules' }
      )
    ], [
      8,
      lines(
        'Reads saved and upstream requests',
        'Reads per second without an upstream request of their own, and upstream requests per second; the ' +
          'further apart, the more varve saves.',
        [[sum(rate(saved)), 'saved'], [`${sum(rate(upstreamRequests))} or vector(0)`, 'upstream requests']],
        { unit: 'reqps' }
      ),
      lines(
        'Requests by endpoint',
        'Client requests per second by endpoint; a jump of one endpoint shows which traffic has changed.',
        [[sum(rate(requests), 'endpoint'), '{{endpoint}}']],
        { unit: 'reqps', stacked: true }
      ),
      lines(
        'Upstream requests by endpoint',
        'Requests per second that still reach the upstreams; moving reads with a large share can be ' +
          'shielded by the settings under latest.',
        [[sum(rate('varve_upstream_requests_total'), 'endpoint'), '{{endpoint}}']],
        { unit: 'reqps', stacked: true }
      )
    ], [
      8,
      lines(
        'Bytes to clients and from upstreams',
        'Bytes of bodies per second; the further apart, the less traffic the upstreams carry and bill.',
        [[sum(rate('varve_response_bytes_total')), 'to clients'], [
          sum(rate('varve_upstream_response_bytes_total')),
          'from upstreams'
        ]],
        { unit: 'Bps' }
      ),
      lines(
        'Bytes to clients by endpoint',
        'Bytes of bodies per second by endpoint; one that is most of the traffic may be compressed, or read in pages.',
        [[sum(rate('varve_response_bytes_total'), 'endpoint'), '{{endpoint}}']],
        { unit: 'Bps', stacked: true }
      ),
      lines(
        'Price of the reads saved',
        'What upstream requests instead of hits would have cost per day, by endpoint, at savings.pricePerMillion; 0 ' +
          'without prices.',
        [[`86400 * ${sum(rate('varve_savings_total'), 'endpoint')}`, '{{endpoint}}']],
        { stacked: true }
      )
    ]],
    ['Response times', [
      8,
      lines(
        'Median by outcome',
        'Half of the requests took less time than this; a hit above some milliseconds means a busy machine ' +
          'or a slow Redis, a miss takes as long as its upstream.',
        [[quantile(0.5, 'varve_request_duration_seconds', ['outcome']), '{{outcome}}']],
        { unit: 's', none: 'no requests' }
      ),
      lines(
        'p99 by outcome',
        'One request in a hundred took longer than this; if hits are slow too, see the event loop on the ' +
          'dashboard of varve itself, else see the upstreams.',
        [[quantile(0.99, 'varve_request_duration_seconds', ['outcome']), '{{outcome}}']],
        { unit: 's', none: 'no requests' }
      ),
      lines(
        'p99 by endpoint',
        'One request in a hundred took longer than this, by endpoint; a single slow endpoint points to its ' +
          'upstream requests.',
        [[quantile(0.99, 'varve_request_duration_seconds', ['endpoint']), '{{endpoint}}']],
        { unit: 's', none: 'no requests' }
      )
    ]],
    ['Responses', [
      8,
      lines(
        'Responses by status',
        'Responses per second by status; 5xx are failures, 429 is a limit, 410 is pruned history, and a new' +
          ' status shows from its second response on.',
        [[sum(rate('varve_requests_total'), 'status'), '{{status}}']],
        { unit: 'reqps', stacked: true }
      ),
      lines(
        'Errors of varve by status',
        'Error responses per second that varve made itself: 400 is a malformed request, 410 pruned history,' +
          ' 429 a limit and 503 no usable upstream; the access log names the clients.',
        [[sum(rate('varve_requests_total', ownErrors), 'status'), '{{status}}']],
        { unit: 'reqps', stacked: true, none: '0' }
      ),
      lines(
        'Clients with a key',
        'Requests per second of each client in clients.keys, by name; a client with far more than the ' +
          'others may need a limit of its own.',
        [[sum(rate('varve_client_requests_total'), 'client'), '{{client}}']],
        { unit: 'reqps', none: 'no keys' }
      ),
      lines(
        'Bytes to clients with a key',
        'Bytes per second in bodies of responses to each client in clients.keys, by name.',
        [[sum(rate('varve_client_response_bytes_total'), 'client'), '{{client}}']],
        { unit: 'Bps', none: 'no keys' }
      )
    ]],
    ['Following the ledger', [
      8,
      lines(
        'Followed hits',
        'Latest reads per second that were hits at the followed head; far below the readings of the tail, ' +
          'following costs more than it saves; waits for a transaction are those that varve held itself.',
        [[`${sum(rate(requests, 'outcome="hit_followed"'))} or vector(0)`, 'followed hits'], [
          sum(rate('varve_transaction_waits_total'), 'result'),
          'waits for a transaction: {{result}}'
        ]],
        { unit: 'reqps', soft: 1 }
      ),
      lines(
        'Followed head',
        'Last version up to which every transaction was read, of each replica; a flat line is suspended, ' +
          'interrupted or stopped, and the status page says which.',
        [[max(of('varve_follow_head_version'), 'instance'), '{{instance}}']],
        { isFromZero: false, none: 'nothing follows' }
      ),
      lines(
        'Lag of the followed head',
        'Ledger time from the followed head to the newest known one; it grows while following is suspended, ' +
          'which is no fault as long as no latest reads come.',
        [[max(of('varve_follow_lag_seconds'), 'instance'), '{{instance}}']],
        { unit: 's', none: 'nothing follows' }
      )
    ], [
      8,
      lines(
        'Readings of the tail',
        'Readings of new transactions per second: ok, empty, failed, gap, too far behind, and mismatch, ' +
          'another chain; after failed see the upstreams, after gap raise follow.maxAgeMs.',
        [[sum(rate('varve_follow_reads_total'), 'result'), '{{result}}']],
        { unit: 'ops', stacked: true, none: 'nothing follows' }
      ),
      lines(
        'Transactions read',
        'Transactions per second that readings brought; it is as high as the chain is busy, while something ' +
          'follows.',
        [[sum(rate('varve_follow_versions_total')), 'transactions']],
        { unit: 'ops', none: 'nothing follows' }
      ),
      lines(
        'Bytes read',
        'Bytes per second that readings of the tail brought; if that is too much for the network, raise ' +
          'follow.maxAgeMs or leave following off.',
        [[sum(rate('varve_follow_bytes_total')), 'bytes']],
        { unit: 'Bps', none: 'nothing follows' }
      )
    ], [
      8,
      lines(
        'Observed latest reads',
        'Latest reads per second with follow.mode observe: equal would have been a hit, unknown would have been ' +
          'fetched, and different would have been wrong, so leave following off.',
        [[sum(rate('varve_follow_observed_total'), 'result'), '{{result}}']],
        { unit: 'reqps', stacked: true, none: 'nothing follows' }
      ),
      lines(
        'Verified pages',
        'Pages of transactions per second that were checked in BCS: equal; different, which stops following; ' +
          'unavailable, where the upstream sends no BCS that varve can read.',
        [[sum(rate('varve_follow_verified_total'), 'result'), '{{result}}']],
        { unit: 'ops', stacked: true, none: 'nothing follows' }
      ),
      lines(
        'Everything changed',
        'Times per second that everything counted as changed, by reason, so that all latest reads are fetched ' +
          'once; epoch, features and start are usual, unreadable or unlisted point to an upstream.',
        [[sum(rate('varve_follow_touched_all_total'), 'reason'), '{{reason}}']],
        { unit: 'ops', stacked: true, none: 'nothing follows' }
      )
    ]]
  ]
})
