import { type ChainVerification, Quarantine } from '../chain/quarantine.js'
import { probeRequest } from '../upstreams/upstream-request.js'
import { Upstream } from '../upstreams/upstream.js'
import { UpstreamFailure } from '../upstreams/upstream-failure.js'
import { type Position } from '../api/position.js'
import { indexTarget, optionalReads } from '../api/request-targets.js'
import { releaseInIndex, reportsDisabled } from '../api/upstream-response.js'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { inspectDiskFolder } from '../app/disk-folder.js'
import { inspectRedis } from '../redis/settings-check.js'
import { certificateOf } from '../http/certificate.js'
import { redisConnectionOptionsOf } from '../app/redis.js'
import { DnsDiscovery } from '../app/dns-discovery.js'
import { namedUpstreamsOf, withFixedAddress } from '../app/upstream-lifecycle.js'
import { hasRedis } from '../config/value-checks.js'

/** Finding of `varve check --online` about one thing that the configuration names. */
export interface OnlineFinding {
  readonly what: 'upstream' | 'redis' | 'certificate' | 'disk'
  readonly name: string
  readonly facts: Readonly<Record<string, string | number>>
  /** Faults found; empty if all is well. */
  readonly problems: readonly string[]
}

/** Clocks of a check. */
export interface OnlineClocks {
  readonly now: () => number
  readonly wallClockMs: () => number
}

interface ProbedUpstream {
  readonly upstream: NamedUpstream
  readonly position: Position | undefined
  readonly release: string | undefined
  readonly latencyMs: number | undefined
  /** Kinds of reads that the upstream does not serve. */
  readonly disabled: readonly string[]
  readonly problem: string | undefined
}

const maxProbeBytes = 1024 * 1024
const usecPerSecond = 1_000_000n

// Accepts every chain: a check reports the chain of each upstream, and has no chain to compare it with.
const unknownChain: ChainVerification = {
  verifyChain: async () => undefined,
  isSameChain: async () => true,
  isOffChain: () => false,
  hasPeers: () => false
}

/** Contacts everything that the configuration names, once; a fault is a finding, never an error. */
export async function checkOnline (config: Config, clocks: OnlineClocks): Promise<readonly OnlineFinding[]> {
  const { expanded } = await new DnsDiscovery({ log: undefined, now: clocks.now }).expand(config)
  const [upstreams, redis, disk] = await Promise.all([
    Promise.all(namedUpstreamsOf(expanded, undefined).map(async upstream => await probe(upstream, clocks))),
    hasRedis(config.cache.redis) ? [await checkRedis(config, clocks)] : [],
    checkDisk(config)
  ])
  return [...upstreamFindings(upstreams, config.chainId), ...redis, ...checkCertificate(config, clocks), ...disk]
}

async function probe (upstream: NamedUpstream, { now }: OnlineClocks): Promise<ProbedUpstream> {
  try {
    const options = { ...withFixedAddress(upstream), maxBufferedBytes: maxProbeBytes, isCordoned: () => false, now }
    // Reads the files of CA, certificate and key, so it may throw.
    const probed = new Upstream(options, { fetched: () => {} }, own => new Quarantine(own, unknownChain, now))
    return await probeThrough(probed, upstream, now)
  } catch (error) {
    const problem = error instanceof UpstreamFailure ? error.description : (error as Error).message
    return { upstream, position: undefined, release: undefined, latencyMs: undefined, disabled: [], problem }
  }
}

// Probes twice, because the first request alone takes the time to open the connection.
async function probeThrough (
  probed: Upstream,
  upstream: NamedUpstream,
  now: OnlineClocks['now']
): Promise<ProbedUpstream> {
  try {
    await probed.send(probeRequest(indexTarget), upstream.timeoutMs)
    const startedMs = now()
    const { status, stamped, body } = await probed.send(probeRequest(indexTarget), upstream.timeoutMs)
    const latencyMs = now() - startedMs
    return {
      upstream,
      position: stamped?.position,
      release: releaseInIndex(body),
      latencyMs,
      disabled: status === 200 ? await disabledReads(probed) : [],
      problem: status >= 400
        ? `HTTP ${status}`
        : stamped === undefined
        ? 'no position headers: expected a full node'
        : undefined
    }
  } finally {
    await probed.close()
  }
}

async function disabledReads (probed: Upstream): Promise<string[]> {
  const disabled: string[] = []
  for (const { name, method, target, accept, type, body } of optionalReads) {
    const headers = { accept, ...type !== undefined && { 'content-type': type } }
    const response = await probed.send({ ...probeRequest(target), method, headers, body }).catch(() => undefined)
    response?.rest?.destroy()
    if (response !== undefined && reportsDisabled(response, name)) disabled.push(name)
  }
  return disabled
}

function upstreamFindings (probed: readonly ProbedUpstream[], configuredChain: number | null): OnlineFinding[] {
  const chainId = configuredChain ?? probed.find(({ position }) => position !== undefined)?.position?.chainId
  const onChain = probed.flatMap(({ position }) =>
    position !== undefined && position.chainId === chainId ? [position] : []
  )
  const newestUsec = onChain.map(({ head }) => head.timestampUsec).reduce((a, b) => a > b ? a : b, 0n)
  return probed.map(({ upstream, position, release, latencyMs, disabled, problem }) => {
    const isOnChain = position?.chainId === chainId
    const lagSeconds = position === undefined || !isOnChain
      ? undefined
      : Number((newestUsec - position.head.timestampUsec) / usecPerSecond)
    return {
      what: 'upstream',
      name: upstream.name,
      facts: {
        ...position !== undefined && {
          chain: position.chainId,
          version: String(position.head.version),
          oldestVersion: String(position.oldest.version)
        },
        ...release !== undefined && { release },
        ...lagSeconds !== undefined && { lagSeconds },
        ...latencyMs !== undefined && { latencyMs: Math.round(latencyMs * 100) / 100 },
        ...disabled.length > 0 && { disabled: disabled.join(' and ') }
      },
      problems: [
        ...problem === undefined ? [] : [problem],
        ...position === undefined || isOnChain ? [] : [`serves chain ${position.chainId}, expected ${chainId}`],
        ...lagSeconds === undefined || lagSeconds <= upstream.maxLagSeconds
          ? []
          : [`lags ${lagSeconds} s behind the newest upstream, more than maxLagSeconds`]
      ]
    }
  })
}

async function checkRedis ({ cache: { redis } }: Config, { now }: OnlineClocks): Promise<OnlineFinding> {
  const name = redis.sentinel.name ?? (redis.cluster.length > 0 ? 'cluster' : 'server')
  try {
    const { version, policy, warnings } = await inspectRedis(redisConnectionOptionsOf(redis, now))
    return {
      what: 'redis',
      name,
      facts: { ...version !== undefined && { version }, ...policy !== undefined && { policy } },
      problems: warnings
    }
  } catch (error) {
    return { what: 'redis', name, facts: {}, problems: [(error as Error).message] }
  }
}

async function checkDisk ({ cache: { disk: { path, maxGb } }, workers }: Config): Promise<OnlineFinding[]> {
  if (path === null) return []
  try {
    const { problems, ...facts } = await inspectDiskFolder(path, maxGb, workers)
    return [{ what: 'disk', name: path, facts, problems }]
  } catch (error) {
    return [{ what: 'disk', name: path, facts: {}, problems: [(error as Error).message] }]
  }
}

function checkCertificate (config: Config, { now, wallClockMs }: OnlineClocks): OnlineFinding[] {
  const { certFile } = config.tls
  if (certFile === null) return []
  try {
    const certificate = certificateOf(config, now, { info: () => {}, error: () => {} })
    const notAfterMs = (certificate?.notAfterSeconds ?? 0) * 1000
    return [{
      what: 'certificate',
      name: certFile,
      facts: {
        notAfter: new Date(notAfterMs).toISOString(),
        days: Math.floor((notAfterMs - wallClockMs()) / 86_400_000)
      },
      problems: certificate?.warnings ?? []
    }]
  } catch (error) {
    return [{ what: 'certificate', name: certFile, facts: {}, problems: [(error as Error).message] }]
  }
}
