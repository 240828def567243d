import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getuid } from 'node:process'
import { lineOf } from './timed-request.js'
import { Peer, takesConnections } from './peer.js'
import { freePort } from './ports.js'

/** Starts nginx in front of an upstream, as a cache by default; undefined if nginx is not installed. */
export async function startNginx (
  { programs, tools, folder },
  originUrl,
  { isCaching = true, latestFor, certificate } = {}
) {
  if (tools.paths.nginx === undefined) return undefined
  const port = await freePort()
  const home = await folder('nginx')
  await mkdir(join(home, 'temp'))
  const text = configuration(home, port, new URL(originUrl).host, { isCaching, latestFor, certificate })
  await writeFile(join(home, 'nginx.conf'), text)
  const program = await programs.start('nginx', [
    tools.paths.nginx,
    '-p',
    home,
    '-e',
    join(home, 'error.log'),
    '-c',
    join(home, 'nginx.conf')
  ], { part: 'server' })
  await program.until(async () => await takesConnections(port))
  return new Peer(
    'nginx',
    `${certificate === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    program,
    answer => lineOf(answer, 'x-cache-status') === 'HIT'
  )
}

const caching = latestFor => `
      proxy_cache reads;
      proxy_cache_methods GET HEAD POST;
      proxy_cache_key "$scheme $request_method $request_uri $request_body";
      proxy_cache_valid 200 ${latestFor ?? '1h'};
      proxy_cache_lock on;
      proxy_cache_bypass $moves;
      proxy_no_cache $moves;
      add_header X-Cache-Status $upstream_cache_status;`

// Caches by URL pattern, since nginx cannot read positions; event pages of the trace are full.
// The open file cache would keep entries that expire each second open, and wait on their locks.
// tcp_nopush would delay 64 KiB responses by 40 ms.
const configuration = (home, port, origin, { isCaching, latestFor, certificate }) => `
${getuid?.() === 0 ? 'user root;' : ''}
daemon off;
worker_processes 1;
worker_rlimit_nofile 8192;
pid ${home}/nginx.pid;
error_log ${home}/error.log error;
events { worker_connections 4096; }
http {
  access_log off;
  default_type application/json;
  client_body_temp_path ${home}/temp/body;
  proxy_temp_path ${home}/temp/proxy;
  fastcgi_temp_path ${home}/temp/fastcgi;
  uwsgi_temp_path ${home}/temp/uwsgi;
  scgi_temp_path ${home}/temp/scgi;
  sendfile on;
  keepalive_requests 1000000000;
  keepalive_timeout 75s;
  ${latestFor === undefined ? 'open_file_cache max=10000 inactive=1h;' : ''}
  proxy_cache_path ${home}/cache levels=1:2 keys_zone=reads:64m max_size=2g inactive=1h use_temp_path=off;
  upstream node { server ${origin}; keepalive ${isCaching ? 64 : 1024}; keepalive_requests 1000000000; }
  map $request_uri $moves {
    default ${latestFor === undefined ? 1 : 0};
    "~[?&]ledger_version=" 0;
    "~/blocks/by_version/" 0;
    "~[?&]start=" 0;
  }
  server {
    listen 127.0.0.1:${port}${certificate === undefined ? '' : ' ssl'} backlog=4096;
    ${certificate === undefined ? '' : `ssl_certificate ${certificate.cert}; ssl_certificate_key ${certificate.key};`}
    client_body_buffer_size 16k;
    location / {
      proxy_pass http://node;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffers 16 16k;
      ${isCaching ? caching(latestFor) : ''}
    }
  }
}
`
