// Measures the throughput of one cached read over TLS; Varnish and the bare server have none.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeCertificate } from '../support/certificate.js'
import { startHaproxy } from '../support/haproxy.js'
import { startNginx } from '../support/nginx.js'
import { startOrigin } from '../support/origin.js'
import { startVarve } from '../support/varve.js'
import { cellOf, compare } from './hot-key.js'

export const name = 'tls'
export const title = 'one hot key over TLS'
export const needs = ['wrk', 'openssl']

export async function run (bench) {
  const certificate = await makeCertificate(bench)
  const origin = await startOrigin(bench)
  const file = join(await bench.folder('varve'), 'varve.json')
  await writeFile(file, JSON.stringify({ tls: { certFile: certificate.cert, keyFile: certificate.key } }))
  const varve = await startVarve(bench, origin.url, { flags: ['--config', file] })
  const peers = [
    varve,
    await startNginx(bench, origin.url, { certificate }),
    await startHaproxy(bench, origin.url, { certificate })
  ].filter(peer => peer !== undefined)
  const cells = (bench.isSmoke ? [512] : [512, 4096, 65_536]).map(bytes => cellOf({ bytes, connections: 32 }))
  // TLS is reported, not judged: the cipher costs every server the same.
  return { ...await compare(bench, origin, varve, peers, cells), targets: [] }
}
