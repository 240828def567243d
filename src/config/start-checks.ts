import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { BlockList, isIP } from 'node:net'
import { availableParallelism, totalmem, networkInterfaces } from 'node:os'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import { getHeapStatistics } from 'node:v8'
import { cipherListOf } from './ciphers.js'
import { bytesPerMb } from './units.js'
import { type Mistake } from './config-error.js'
import { isLoopback } from './ip-networks.js'
import { type Config } from './schema.js'
import { hostAndPort } from './value-checks.js'

type KeyPair = Pick<Config['tls'], 'certFile' | 'keyFile'>

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
  // Uses the limit of a container, if there is one.
  const memoryMb = Math.floor(Math.min(totalmem(), process.constrainedMemory() || Infinity) / bytesPerMb)
  if (maxMb > memoryMb) {
    return [{ path, message: `expected at most ${memoryMb}, the memory of this machine in MB, got ${maxMb}` }]
  }
  // Small responses mostly take heap (docs/tiers-and-sizes.md, "V8's heap"); each worker has its own heap.
  const heapMb = Math.floor(getHeapStatistics().heap_size_limit / bytesPerMb)
  if (maxMb <= heapMb * workers) return []
  const message = `expected at most ${heapMb * workers}, since V8's heap may take ${heapMb} MB in ` +
    `${workers === 1 ? 'this process' : 'each worker'}: lower maxMb, or raise the limit with NODE_OPTIONS=` +
    `--max-old-space-size=${Math.ceil(maxMb / workers)}, got ${maxMb}`
  return [{ path, message }]
}

/** Addresses of this machine, as a parameter for tests. */
export type Interfaces = () => ReadonlyArray<{ readonly address: string }>

/** Rejects each upstream that is a listener of this varve, which would fetch from itself without end. */
export function ownAddressMistakes (config: Config, interfaces: Interfaces = addressesOfMachine): Mistake[] {
  const listeners = [
    { key: 'listen', flag: '--listen', address: config.listen },
    { key: 'admin.listen', flag: '--admin', address: config.admin.listen }
  ]
  return config.upstreams.flatMap(({ url }, at) => {
    const own = listeners.filter(({ address }) => isOwnListener(url, address, interfaces))
    return own.map(({ key, flag }) => ({
      path: `upstreams.${at}.url`,
      message: `expected the address of a full node, got varve's own (${key}): ` +
        `correct the URL, or choose another address for varve with ${flag} or ${key}`
    }))
  })
}

function isOwnListener (url: string, listen: string, interfaces: Interfaces): boolean {
  const { hostname, port, protocol } = new URL(url)
  const own = hostAndPort(listen)
  // Port 0 picks a free port, which no configuration can name as an upstream.
  if (own.port === 0 || Number(port || (protocol === 'https:' ? 443 : 80)) !== own.port) return false
  const host = hostname.replace(/^\[|\]$|\.$/g, '')
  if (host === own.host.toLowerCase()) return true
  const listener = new BlockList()
  const addAddress = (address: string): void => listener.addAddress(address, familyOf(address))
  addressesOf(own.host).forEach(addAddress)
  if (isUnspecified(own.host)) {
    listener.addSubnet('127.0.0.0', 8)
    interfaces().forEach(({ address }) => addAddress(address))
  }
  // Matches IPv4-mapped IPv6 addresses too.
  return addressesOf(host).some(address => listener.check(address, familyOf(address)))
}

/** Returns the addresses of a host as far as they are certain; connections to 0.0.0.0 or :: reach this machine. */
function addressesOf (host: string): string[] {
  if (host === 'localhost' || isUnspecified(host)) return ['127.0.0.1', '::1']
  return isIP(host) === 0 ? [] : [host]
}

function familyOf (address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 4 ? 'ipv4' : 'ipv6'
}

function isUnspecified (host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

function addressesOfMachine (): Array<{ address: string }> {
  return Object.values(networkInterfaces()).flatMap(addresses => addresses ?? [])
}

/** Setting that is valid but rarely intended. */
export interface ConfigWarning {
  readonly key: string
  readonly message: string
}

/** Lists the rarely intended settings of a valid configuration. */
export function warningsOf (config: Config): readonly ConfigWarning[] {
  return [...adminWarnings(config), ...workerWarnings(config)]
}

function adminWarnings ({ admin }: Config): ConfigWarning[] {
  if (admin.token !== null || isLoopback(hostAndPort(admin.listen).host)) return []
  const message = 'the admin listener is reachable from other machines and there is no admin.token: ' +
    'anyone who reaches it reads metrics and status; listen on 127.0.0.1, or set a token and restrict ' +
    'access with a firewall'
  return [{ key: 'admin.listen', message }]
}

function workerWarnings ({ workers }: Config): ConfigWarning[] {
  const processors = availableParallelism()
  if (workers <= 2 * processors) return []
  const message = `${workers} workers share ${processors} processor${processors === 1 ? '' : 's'}: beyond twice the ` +
    'processors they gain nothing, and each has a smaller part of cache.memory.maxMb; lower workers'
  return [{ key: 'workers', message }]
}
