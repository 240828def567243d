import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../scripts/ground.js'

/** Makes a self-signed certificate for loopback; `both` has certificate and key in one file, as HAProxy wants it. */
export async function makeCertificate ({ folder }) {
  const home = await folder('certificate')
  const [cert, key, both] = ['cert.pem', 'key.pem', 'both.pem'].map(name => join(home, name))
  const kind = '-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1'
  const { code, output } = await run(['openssl', 'req', ...kind.split(' '), '-keyout', key, '-out', cert])
  if (code !== 0) throw new Error(`openssl made no certificate:\n${output}`)
  await writeFile(both, await readFile(cert, 'utf8') + await readFile(key, 'utf8'))
  return { cert, key, both }
}
