import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { lineOf } from './timed-request.js'
import { Peer, takesConnections } from './peer.js'
import { freePort } from './ports.js'

/** Starts Varnish in front of an upstream; undefined if Varnish is not installed. */
export async function startVarnish ({ programs, tools, folder }, originUrl, { isOnDisk = false } = {}) {
  if (tools.paths.varnishd === undefined) return undefined
  const port = await freePort()
  const home = await folder('varnish')
  await writeFile(join(home, 'node.vcl'), configuration(new URL(originUrl)))
  const program = await programs.start('Varnish', [
    tools.paths.varnishd,
    '-F',
    '-n',
    join(home, 'work'),
    '-f',
    join(home, 'node.vcl'),
    '-a',
    `127.0.0.1:${port}`,
    '-T',
    'none',
    // Disables the jail, which would need another user.
    '-j',
    'none',
    '-s',
    isOnDisk ? `file,${join(home, 'storage')},128m` : 'malloc,1g',
    // Uses one pool for one core, with enough threads for a thousand waiting clients.
    '-p',
    'thread_pools=1',
    '-p',
    'thread_pool_min=100',
    '-p',
    'thread_pool_max=1500',
    '-p',
    'listen_depth=4096'
  ], { part: 'server' })
  await program.until(async () => await takesConnections(port))
  // Hits have two numbers in x-varnish: for this request and for the one which fetched the object.
  return new Peer(
    'Varnish',
    `http://127.0.0.1:${port}`,
    program,
    answer => /^\d+ \d+$/.test(lineOf(answer, 'x-varnish') ?? '')
  )
}

// Changes only the TTL, for reads that a version pins; POSTs pass, as in plain Varnish.
const configuration = ({ hostname, port }) => `
vcl 4.1;
backend default { .host = "${hostname}"; .port = "${port}"; }
sub vcl_backend_response {
  if (beresp.status == 200 && bereq.url ~ "[?&](ledger_version|start)=|/blocks/by_version/") {
    set beresp.ttl = 1h;
  } else {
    set beresp.ttl = 0s;
    set beresp.uncacheable = true;
  }
  return (deliver);
}
`
