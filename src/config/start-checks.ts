import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import { getHeapStatistics } from 'node:v8'
import { cipherListOf } from './ciphers.js'
import { type Mistake } from './config-error.js'
import { ownAddressMistakes } from './own-address.js'
import { type Config } from './schema.js'

type KeyPair = Pick<Config['tls'], 'certFile' | 'keyFile'>

const bytesPerMb = 1024 * 1024

/** Lists what a varve cannot start with on this machine; `serve` and `check` reject the same. */
export function startMistakes (config: Config): Mistake[] {
  return [...ownAddressMistakes(config), ...tlsFileMistakes(config), ...memoryMistakes(config)]
}

function tlsFileMistakes ({ tls, upstreams, cache: { redis } }: Config): Mistake[] {
  const policy = {
    minVersion: tls.minVersion === 1.3 ? 'TLSv1.3' : 'TLSv1.2',
    ciphers: cipherListOf(tls.ciphers)
  } as const
  return [
    ...keyPairMistakes('tls', tls, policy),
    ...upstreams.flatMap((upstream, at) => [
      ...certificateMistakes(`upstreams.${at}.caFile`, upstream.caFile),
      ...keyPairMistakes(`upstreams.${at}`, upstream)
    ]),
    ...certificateMistakes('cache.redis.caFile', redis.caFile)
  ]
}

function keyPairMistakes (path: string, { certFile, keyFile }: KeyPair, policy: SecureContextOptions = {}): Mistake[] {
  const mistakes = certificateMistakes(`${path}.certFile`, certFile)
  if (mistakes.length > 0 || certFile === null || keyFile === null) return mistakes
  return fileMistakes(`${path}.keyFile`, keyFile, 'a PEM file with the key of the certificate', () => {
    const key = readFileSync(keyFile, 'utf8')
    // OpenSSL's own error for a locked key does not name the passphrase.
    if (key.includes('ENCRYPTED')) throw new Error('varve needs a key without a passphrase')
    createSecureContext({ cert: readFileSync(certFile), key, ...policy })
  })
}

function certificateMistakes (path: string, file: string | null): Mistake[] {
  return file === null
    ? []
    : fileMistakes(path, file, 'a PEM file with a certificate', () => new X509Certificate(readFileSync(file, 'utf8')))
}

function fileMistakes (path: string, file: string, expected: string, use: () => unknown): Mistake[] {
  try {
    use()
    return []
  } catch (error) {
    return [{ path, message: `expected ${expected}, got ${JSON.stringify(file)}: ${(error as Error).message}` }]
  }
}

function memoryMistakes ({ workers, cache: { memory: { maxMb } } }: Config): Mistake[] {
  const path = 'cache.memory.maxMb'
  // The limit of a container, if there is one.
  const memoryMb = Math.floor(Math.min(totalmem(), process.constrainedMemory() || Infinity) / bytesPerMb)
  if (maxMb > memoryMb) {
    return [{ path, message: `expected at most ${memoryMb}, the memory of this machine in MB, got ${maxMb}` }]
  }
  // Small responses take most of their memory in the heap (docs/sizing.md, "V8's heap"); workers have one each.
  const heapMb = Math.floor(getHeapStatistics().heap_size_limit / bytesPerMb)
  if (maxMb <= heapMb * workers) return []
  const message = `expected at most ${heapMb * workers}, since V8's heap may take ${heapMb} MB in ` +
    `${workers === 1 ? 'this process' : 'each worker'}: lower maxMb, or raise the limit with NODE_OPTIONS=` +
    `--max-old-space-size=${Math.ceil(maxMb / workers)}, got ${maxMb}`
  return [{ path, message }]
}
