import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { lineOf } from './timed-request.js'
import { Peer, takesConnections } from './peer.js'
import { freePort } from './ports.js'

/** Starts HAProxy's cache in front of an upstream; undefined if HAProxy is not installed. */
export async function startHaproxy ({ programs, tools, folder }, originUrl, { certificate } = {}) {
  if (tools.paths.haproxy === undefined) return undefined
  const port = await freePort()
  const file = join(await folder('haproxy'), 'haproxy.cfg')
  await writeFile(file, configuration(port, new URL(originUrl).host, certificate))
  const program = await programs.start('HAProxy', [tools.paths.haproxy, '-db', '-f', file], { part: 'server' })
  await program.until(async () => await takesConnections(port))
  return new Peer(
    'HAProxy',
    `${certificate === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    program,
    answer => lineOf(answer, 'x-cache-status') === 'HIT'
  )
}

// Caches by URL pattern, since HAProxy cannot read positions. It stores nothing without a Cache-Control header.
const configuration = (port, origin, certificate) => `
global
  maxconn 4096
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 75s
  timeout server 30s
  option http-keep-alive
cache reads
  total-max-size 1024
  max-object-size 8000000
  max-age 3600
frontend clients
  bind 127.0.0.1:${port}${certificate === undefined ? '' : ` ssl crt ${certificate.both}`} backlog 4096
  acl pinned url_reg [?&](ledger_version|start)=|/blocks/by_version/
  http-request cache-use reads if pinned
  http-request set-var(txn.pinned) bool(true) if pinned
  http-response set-header cache-control "public, max-age=3600" if { var(txn.pinned) -m bool }
  http-response cache-store reads if { var(txn.pinned) -m bool }
  http-response set-header x-cache-status HIT if { res.cache_hit }
  default_backend node
backend node
  server node ${origin}
`
