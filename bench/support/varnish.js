import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { lineOf } from './ask.js'
import { Peer, takesConnections } from './peer.js'
import { freePort } from './ports.js'

/** Starts Varnish in front of a node; undefined where it is not installed. */
export async function startVarnish ({ programs, tools, folder }, originUrl) {
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
    // No other user to become: it runs as whoever runs this, root or not.
    '-j',
    'none',
    '-s',
    'malloc,1g',
    // One pool for one core, with room for a thousand who wait for one answer.
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
  // Two numbers: this request's, and the one's that brought the answer.
  return new Peer(
    'Varnish',
    `http://127.0.0.1:${port}`,
    program,
    answer => /^\d+ \d+$/.test(lineOf(answer, 'x-varnish') ?? '')
  )
}

// Its own rules but for how long what is keyed by a version is true: POSTs pass, as they do without further modules.
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
