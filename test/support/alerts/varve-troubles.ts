import { connect } from 'node:net'
import { type Test } from 'tap'
import { decodeStored, encodeStored } from '../../../src/cache/stored.js'
import { tagOf } from '../../../src/cache/entry.js'
import { start } from '../../cli/command.js'
import { certificateKey } from '../certificate.js'
import { startRedis } from '../redis-server.js'
import { until } from '../until.js'
import { type TestVarve } from '../varve.js'
import { pidsOf, quiet } from '../workers.js'
import { certificateUntil } from './certificate-until.js'
import { readAt, type Stage, type Trouble } from './stage.js'

// Prometheus goes on as it began to where it has looked for half of a time only.
const isOnce = (value: number): boolean => value >= 1 && value < 2.5
const daySeconds = 86_400

/** What befalls varve itself, what it keeps, and what it is asked for. */
export async function varveTroubles (t: Test, stage: Stage): Promise<Trouble[]> {
  return (await Promise.all([
    stops(stage),
    historyLost(stage),
    historyEnds(stage),
    tooSmall(stage),
    redisStops(t, stage),
    redisFails(t, stage),
    wrongEntries(t, stage),
    limited(stage),
    full(stage),
    workerLost(stage),
    refusedAndUnhandled(t, stage),
    certificateEnds(stage)
  ])).flat()
}

async function stops (stage: Stage): Promise<Trouble> {
  const varve = await stage.varve([await stage.node()])
  return {
    alert: 'VarveDown',
    adminUrl: varve.adminUrl,
    isValue: value => value === 0,
    words: /no metrics for a minute\.$/,
    begin: async () => {
      await varve.stop({ drainMs: 0 })
    }
  }
}

async function historyLost (stage: Stage): Promise<Trouble> {
  const varve = await stage.varve([await stage.node({ prunedBlocks: 100 })])
  let end = (): void => {}
  return {
    alert: 'VarveHistoryLost',
    adminUrl: varve.adminUrl,
    isValue: value => value > 2 && value < 7,
    words: /^\d\.\d\d reads a second of .* are answered 410\.$/,
    begin: () => {
      end = stage.again(200, async () => await varve.get(readAt(5)))
    },
    mend: () => {
      end()
    }
  }
}

/** The window moves by a block with each new one, and somebody asks for what is 240 blocks, a minute, from its end. */
async function historyEnds (stage: Stage): Promise<Trouble> {
  const node = await stage.node()
  node.ledger.pruneTo(100)
  const varve = await stage.varve([node])
  stage.again(250, async () => {
    node.ledger.pruneTo(node.ledger.height - 900)
  })
  // What is at hand is asked for as well.
  stage.again(500, async () => await varve.get(readAt(node.ledger.block(node.ledger.height - 660).firstVersion)))
  return {
    alert: 'VarveHistoryEndsInAnHour',
    adminUrl: varve.adminUrl,
    isValue: value => value > 1 && value < 300,
    words: /falls out of the nodes' window in [\d.ms ]+, if they go on pruning/
  }
}

async function tooSmall (stage: Stage): Promise<Trouble> {
  const node = await stage.node()
  const varve = await stage.varve([node], { cache: { memory: { maxMb: 1 } } })
  stage.again(
    100,
    async nth =>
      await varve.get(`/v1/blocks/by_version/${node.ledger.block(10 + nth % 900).firstVersion}?with_transactions=true`)
  )
  return {
    alert: 'VarveCacheTooSmall',
    labels: { tier: 'memory' },
    adminUrl: varve.adminUrl,
    isValue: value => value > 0 && value < 600,
    words: /makes room for something else after [\d.ms ]+ on average\.$/
  }
}

async function redisStops (t: Test, stage: Stage): Promise<Trouble> {
  const redis = await startRedis(t)
  const varve = await stage.varve([await stage.node()], { cache: { redis: { url: redis.url } } })
  return {
    alert: 'VarveRedisDown',
    adminUrl: varve.adminUrl,
    isValue: value => value === 0,
    words: /has gone on without Redis/,
    begin: async () => {
      await redis.kill()
    },
    mend: async () => {
      await redis.start()
    }
  }
}

/** It takes back what varve may do there, in part. */
async function redisFails (t: Test, stage: Stage): Promise<Trouble> {
  const redis = await startRedis(t)
  const varve = await stage.varve([await stage.node()], { cache: { redis: { url: redis.url } } })
  return {
    alert: 'VarveRedisErrors',
    adminUrl: varve.adminUrl,
    isValue: value => value > 0.01 && value <= 1,
    words: /[\d.]+% failed or was not answered in time\.$/,
    begin: async () => {
      await redis.client.acl('SETUSER', 'default', '-publish')
    },
    mend: async () => {
      await redis.client.acl('SETUSER', 'default', '+publish')
    }
  }
}

/** Somebody else has written into Redis: one entry that looks as if varve had, and one that does not. */
async function wrongEntries (t: Test, stage: Stage): Promise<Trouble[]> {
  const [redis, node] = [await startRedis(t), await stage.node()]
  const shared = { cache: { redis: { url: redis.url } } }
  const first = await stage.varve([node], shared)
  const second = await stage.varve([node], { ...shared, audit: { share: 1 } })
  const keyOf = async (version: number): Promise<string> =>
    (await redis.client.keys('varve:1:*')).find(key => key.includes(`ledger_version=${version}`)) ?? ''
  const begin = async (): Promise<void> => {
    for (const version of [2000, 2001]) await first.get(readAt(version))
    await until(async () => await keyOf(2000) !== '' && await keyOf(2001) !== '', 'both are in Redis')
    const key = await keyOf(2000)
    const stored = await decodeStored(
      key.slice('varve:1:'.length),
      await redis.client.getBuffer(key) ?? Buffer.alloc(0)
    )
    const body = Buffer.from(stored.body)
    body.writeUInt8(body.readUInt8(30) ^ 1, 30)
    await redis.client.set(key, await encodeStored({ ...stored, body, etag: tagOf(stored.contentType, body) }))
    await redis.client.set(await keyOf(2001), 'what nobody of varve has written')
    for (const version of [2000, 2001]) await second.get(readAt(version))
  }
  const rest = { adminUrl: second.adminUrl, isValue: isOnce, mend: () => {} }
  return [
    {
      alert: 'VarveAuditFoundDifferent',
      labels: { result: 'different' },
      words: /are not what a node says, found in 15 minutes: [12]\./,
      begin,
      ...rest
    },
    { alert: 'VarveCorruptEntries', words: /written under their key, found in 15 minutes: [12]\./, ...rest }
  ]
}

async function limited (stage: Stage): Promise<Trouble> {
  const varve = await stage.varve(
    [await stage.node()],
    { limits: { client: { requestsPerSecond: 1, burst: 1, exemptHits: false } } } as Parameters<Stage['varve']>[1]
  )
  const end = stage.again(100, async () => await varve.get(readAt(2000)))
  return {
    alert: 'VarveClientsLimited',
    adminUrl: varve.adminUrl,
    isValue: value => value > 0.5 && value < 1,
    words: /[\d.]+% were answered 429/,
    mend: end
  }
}

async function full (stage: Stage): Promise<Trouble> {
  const varve = await stage.varve([await stage.node()], { limits: { connections: 2 } } as Parameters<Stage['varve']>[1])
  const { hostname, port } = new URL(varve.url)
  const end = stage.again(100, async () => {
    const socket = connect(Number(port), hostname).on('error', () => {}).setTimeout(1000, () => {
      socket.destroy()
    })
  })
  return {
    alert: 'VarveConnectionsFull',
    adminUrl: varve.adminUrl,
    isValue: value => value > 0.5 && value < 15,
    words: /has closed \d+\.\d\d connections a second for want of room/,
    mend: end
  }
}

async function workerLost (stage: Stage): Promise<Trouble> {
  const varve: TestVarve = await stage.varve([await stage.node()], { ...quiet, workers: 2 })
  return {
    alert: 'VarveWorkerLost',
    adminUrl: varve.adminUrl,
    isValue: isOnce,
    words: /have ended by themselves or hung in 15 minutes: [12]\./,
    begin: async () => {
      process.kill((await pidsOf(varve))[0] ?? NaN, 'SIGKILL')
    },
    mend: () => {}
  }
}

async function refusedAndUnhandled (t: Test, stage: Stage): Promise<Trouble[]> {
  const right = `upstreams: [{ name: n1, url: "${(await stage.node()).url}" }]\n`
  const file = stage.file('v.yaml', right)
  const command = start(t, ['--config', file, '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'])
  const [, adminUrl = ''] = await command.saw(/"adminUrl":"([^"]+)"/)
  const reload = (text: string): void => {
    stage.file('v.yaml', text)
    command.signal('SIGHUP')
  }
  return [
    {
      alert: 'VarveReloadRefused',
      adminUrl,
      isValue: value => value === 0,
      words: /would not start with the one that is there now\.$/,
      begin: () => {
        reload('upstream: []\n')
      },
      mend: () => {
        reload(right)
      }
    },
    {
      alert: 'VarveUnhandledFailure',
      labels: { kind: 'rejection' },
      adminUrl,
      isValue: isOnce,
      words: /^Failures of the kind rejection in .* in 15 minutes: [12]\.$/,
      begin: () => {
        command.fault('rejection', new Error('of the test'))
      },
      mend: () => {}
    }
  ]
}

async function certificateEnds (stage: Stage): Promise<Trouble> {
  const certFile = stage.file('c.pem', certificateUntil(new Date(Date.now() + daySeconds * 1000)))
  const { adminUrl } = await stage.varve([await stage.node()], {
    tls: { certFile, keyFile: stage.file('k.pem', certificateKey) }
  })
  return {
    alert: 'VarveCertificateEndsInTwoDays',
    adminUrl,
    isValue: value => value > 0.9 * daySeconds && value <= daySeconds,
    words: /is valid for (?:23h 5\dm \d+s|1d 0h 0m 0s) more\.$/
  }
}
