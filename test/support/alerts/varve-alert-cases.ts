import { connect } from 'node:net'
import { type Test } from 'tap'
import { decodeEntry, encodeEntry } from '../../../src/cache/entry-codec.js'
import { computeEtag } from '../../../src/cache/entry.js'
import { startCommand } from '../../cli/command.js'
import { certificateKey } from '../certificate.js'
import { startRedis } from '../redis-server.js'
import { until } from '../until.js'
import { type TestVarve } from '../varve.js'
import { pidsOf, quietConfig } from '../workers.js'
import { budgetAlertCases } from './budget-alert-cases.js'
import { certificateUntil } from './certificate-until.js'
import { diskAlertCase } from './disk-alert-case.js'
import { newHistoryTarget, type AlertEnvironment, type AlertCase } from './alert-environment.js'

// Allows extrapolation: Prometheus extends a half-observed range at its first rate.
const isOnce = (value: number): boolean => value >= 1 && value < 2.5
const daySeconds = 86_400

/** Returns cases with faults of varve itself, of its cache and of its load. */
export async function varveAlertCases (t: Test, stage: AlertEnvironment): Promise<AlertCase[]> {
  return (await Promise.all([
    stops(stage),
    historyLost(stage),
    historyEnds(stage),
    tooSmall(stage),
    redisStops(t, stage),
    redisFails(t, stage),
    diskAlertCase(t, stage),
    wrongEntries(t, stage),
    limited(stage),
    full(stage),
    budgetAlertCases(t, stage),
    workerLost(stage),
    rejectedAndUnhandled(t, stage),
    certificateEnds(stage)
  ])).flat()
}

async function stops (stage: AlertEnvironment): Promise<AlertCase> {
  const varve = await stage.startVarve([await stage.startUpstream()])
  return {
    alert: 'VarveDown',
    adminUrl: varve.adminUrl,
    isValue: value => value === 0,
    description: /^Prometheus has not been able to scrape .* for a minute\.$/,
    begin: async () => {
      await varve.stop({ drainMs: 0 })
    }
  }
}

async function historyLost (stage: AlertEnvironment): Promise<AlertCase> {
  const varve = await stage.startVarve([await stage.startUpstream({ prunedBlocks: 100 })])
  let end = (): void => {}
  return {
    alert: 'VarveHistoryLost',
    adminUrl: varve.adminUrl,
    isValue: value => value > 2 && value < 7,
    description: / responds 410 to \d\.\d\d reads per second: /,
    begin: () => {
      end = stage.repeat(200, async () => await varve.get(newHistoryTarget(5)))
    },
    fix: () => {
      end()
    }
  }
}

/** Moves the window by a block with each new one, while a client reads 240 blocks, a minute, from its end. */
async function historyEnds (stage: AlertEnvironment): Promise<AlertCase> {
  const upstream = await stage.startUpstream()
  upstream.ledger.pruneTo(100)
  const varve = await stage.startVarve([upstream])
  stage.repeat(250, async () => {
    upstream.ledger.pruneTo(upstream.ledger.height - 900)
  })
  // Reads available versions as well.
  stage.repeat(
    500,
    async () => await varve.get(newHistoryTarget(upstream.ledger.block(upstream.ledger.height - 660).firstVersion))
  )
  return {
    alert: 'VarveHistoryEndsInAnHour',
    adminUrl: varve.adminUrl,
    isValue: value => value > 1 && value < 300,
    description: /leaves the upstreams' window in [\d.ms ]+, if pruning continues/
  }
}

async function tooSmall (stage: AlertEnvironment): Promise<AlertCase> {
  const upstream = await stage.startUpstream()
  const varve = await stage.startVarve([upstream], { cache: { memory: { maxMb: 1 } } })
  stage.repeat(
    100,
    async nth =>
      await varve.get(
        `/v1/blocks/by_version/${upstream.ledger.block(10 + nth % 900).firstVersion}?with_transactions=true`
      )
  )
  return {
    alert: 'VarveCacheTooSmall',
    labels: { tier: 'memory' },
    adminUrl: varve.adminUrl,
    isValue: value => value > 0 && value < 600,
    description: /are evicted after [\d.ms ]+ on average\.$/
  }
}

async function redisStops (t: Test, stage: AlertEnvironment): Promise<AlertCase> {
  const redis = await startRedis(t)
  const varve = await stage.startVarve([await stage.startUpstream()], { cache: { redis: { url: redis.url } } })
  return {
    alert: 'VarveRedisDown',
    adminUrl: varve.adminUrl,
    isValue: value => value === 0,
    description: /has served without Redis/,
    begin: async () => {
      await redis.kill()
    },
    fix: async () => {
      await redis.start()
    }
  }
}

/** Revokes a part of varve's permissions in Redis. */
async function redisFails (t: Test, stage: AlertEnvironment): Promise<AlertCase> {
  const redis = await startRedis(t)
  const varve = await stage.startVarve([await stage.startUpstream()], { cache: { redis: { url: redis.url } } })
  return {
    alert: 'VarveRedisErrors',
    adminUrl: varve.adminUrl,
    isValue: value => value > 0.01 && value <= 1,
    description: /[\d.]+% of the Redis operations .* failed or timed out\.$/,
    begin: async () => {
      await redis.client.acl('SETUSER', 'default', '-publish')
    },
    fix: async () => {
      await redis.client.acl('SETUSER', 'default', '+publish')
    }
  }
}

/** Writes foreign data into Redis: one entry that looks like varve's, and one that does not. */
async function wrongEntries (t: Test, stage: AlertEnvironment): Promise<AlertCase[]> {
  const [redis, upstream] = [await startRedis(t), await stage.startUpstream()]
  const shared = { cache: { redis: { url: redis.url } } }
  const first = await stage.startVarve([upstream], shared)
  const second = await stage.startVarve([upstream], { ...shared, audit: { share: 1 } })
  const keyOf = async (version: number): Promise<string> =>
    (await redis.client.keys('varve:1:*')).find(key => key.includes(`ledger_version=${version}`)) ?? ''
  const begin = async (): Promise<void> => {
    for (const version of [2000, 2001]) await first.get(newHistoryTarget(version))
    await until(async () => await keyOf(2000) !== '' && await keyOf(2001) !== '', 'both entries are in Redis')
    const key = await keyOf(2000)
    const stored = await decodeEntry(
      key.slice('varve:1:'.length),
      await redis.client.getBuffer(key) ?? Buffer.alloc(0)
    )
    const body = Buffer.from(stored.body)
    body.writeUInt8(body.readUInt8(30) ^ 1, 30)
    await redis.client.set(key, await encodeEntry({ ...stored, body, etag: computeEtag(stored.contentType, body) }))
    await redis.client.set(await keyOf(2001), 'what varve has not written')
    for (const version of [2000, 2001]) await second.get(newHistoryTarget(version))
  }
  const rest = { adminUrl: second.adminUrl, isValue: isOnce, fix: () => {} }
  return [
    {
      alert: 'VarveAuditMismatch',
      labels: { result: 'different' },
      description: /differ from an upstream; found in 15 minutes: [12]\./,
      begin,
      ...rest
    },
    { alert: 'VarveCorruptEntries', description: /counted as misses; found in 15 minutes: [12]\.$/, ...rest }
  ]
}

async function limited (stage: AlertEnvironment): Promise<AlertCase> {
  const varve = await stage.startVarve(
    [await stage.startUpstream()],
    { limits: { client: { requestsPerSecond: 1, burst: 1, exemptHits: false } } } as Parameters<
      AlertEnvironment['startVarve']
    >[1]
  )
  const end = stage.repeat(100, async () => await varve.get(newHistoryTarget(2000)))
  return {
    alert: 'VarveClientsLimited',
    adminUrl: varve.adminUrl,
    isValue: value => value > 0.5 && value < 1,
    description: /[\d.]+% of the requests to .* got 429\.$/,
    fix: end
  }
}

async function full (stage: AlertEnvironment): Promise<AlertCase> {
  const varve = await stage.startVarve(
    [await stage.startUpstream()],
    { limits: { connections: 2 } } as Parameters<AlertEnvironment['startVarve']>[1]
  )
  const { hostname, port } = new URL(varve.url)
  const end = stage.repeat(100, async () => {
    const socket = connect(Number(port), hostname).on('error', () => {}).setTimeout(1000, () => {
      socket.destroy()
    })
  })
  return {
    alert: 'VarveConnectionsFull',
    adminUrl: varve.adminUrl,
    isValue: value => value > 0.5 && value < 15,
    description: /closes \d+\.\d\d connections per second at its connection limit/,
    fix: end
  }
}

async function workerLost (stage: AlertEnvironment): Promise<AlertCase> {
  const varve: TestVarve = await stage.startVarve([await stage.startUpstream()], { ...quietConfig, workers: 2 })
  return {
    alert: 'VarveWorkerLost',
    adminUrl: varve.adminUrl,
    isValue: isOnce,
    description: /crashed or hung in 15 minutes: [12]\./,
    begin: async () => {
      process.kill((await pidsOf(varve))[0] ?? NaN, 'SIGKILL')
    },
    fix: () => {}
  }
}

async function rejectedAndUnhandled (t: Test, stage: AlertEnvironment): Promise<AlertCase[]> {
  const right = `upstreams: [{ name: n1, url: "${(await stage.startUpstream()).url}" }]\n`
  const file = stage.file('v.yaml', right)
  const command = startCommand(t, ['--config', file, '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'])
  const [, adminUrl = ''] = await command.waitForOutput(/"adminUrl":"([^"]+)"/)
  const reload = (text: string): void => {
    stage.file('v.yaml', text)
    command.signal('SIGHUP')
  }
  return [
    {
      alert: 'VarveReloadRejected',
      adminUrl,
      isValue: value => value === 0,
      description: /would not start with the current file\.$/,
      begin: () => {
        reload('upstream: []\n')
      },
      fix: () => {
        reload(right)
      }
    },
    {
      alert: 'VarveUnhandledFailure',
      labels: { kind: 'rejection' },
      adminUrl,
      isValue: isOnce,
      description: /^Unexpected errors of kind rejection in .* in 15 minutes: [12]\.$/,
      begin: () => {
        command.raiseFault('rejection', new Error('of the test'))
      },
      fix: () => {}
    }
  ]
}

async function certificateEnds (stage: AlertEnvironment): Promise<AlertCase> {
  const certFile = stage.file('c.pem', certificateUntil(new Date(Date.now() + daySeconds * 1000)))
  const { adminUrl } = await stage.startVarve([await stage.startUpstream()], {
    tls: { certFile, keyFile: stage.file('k.pem', certificateKey) }
  })
  return {
    alert: 'VarveCertificateExpiresInTwoDays',
    adminUrl,
    isValue: value => value > 0.9 * daySeconds && value <= daySeconds,
    description: /expires in (?:23h 5\dm \d+s|1d 0h 0m 0s)\.$/
  }
}
