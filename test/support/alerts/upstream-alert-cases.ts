import { type Test } from 'tap'
import { sendRequest } from '../client.js'
import { startSandboxNode, portOf } from '../replicas.js'
import { newHistoryTarget, type AlertEnvironment, type AlertCase } from './alert-environment.js'

const isOne = (value: number): boolean => value === 1
const isZero = (value: number): boolean => value === 0

/** Returns cases with faults of upstreams and the alerts that varve raises for them. */
export async function upstreamAlertCases (t: Test, stage: AlertEnvironment): Promise<AlertCase[]> {
  return (await Promise.all([
    upstreamStops(t, stage),
    allUpstreamsDown(stage),
    notReady(stage),
    lags(stage),
    quarantined(stage),
    backsOff(stage),
    errors(stage),
    exhausted(stage),
    chainStalls(stage),
    stale(stage),
    reset(stage)
  ])).flat()
}

async function upstreamStops (t: Test, stage: AlertEnvironment): Promise<AlertCase> {
  const upstreams = [await stage.startPausedUpstream(), await stage.startPausedUpstream()] as const
  const varve = await stage.startVarve(upstreams)
  return {
    alert: 'VarveUpstreamDown',
    labels: { upstream: 'n1' },
    adminUrl: varve.adminUrl,
    isValue: isZero,
    description: /^For two minutes upstream n1 of 127\.0\.0\.1:\d+ has been down/,
    begin: async () => {
      await upstreams[0].close()
    },
    fix: async () => {
      await startSandboxNode(t, { prunedBlocks: 0, port: portOf(upstreams[0]) })
    }
  }
}

async function allUpstreamsDown (stage: AlertEnvironment): Promise<AlertCase[]> {
  const upstream = await stage.startPausedUpstream()
  const { adminUrl } = await stage.startVarve([upstream])
  return [
    {
      alert: 'VarveNoUpstreamUp',
      adminUrl,
      isValue: isZero,
      description: /^For a minute no upstream of 127\.0\.0\.1:\d+ has been up/,
      begin: () => {
        upstream.faults.add({ kind: 'reset' })
      },
      fix: () => {
        upstream.faults.clear()
      }
    },
    {
      alert: 'VarveLevelRed',
      adminUrl,
      isValue: value => value === 2,
      description: /^The status page and \/readyz of 127\.0\.0\.1:\d+ have shown red for two minutes and say why\.$/,
      fix: () => {}
    }
  ]
}

async function notReady (stage: AlertEnvironment): Promise<AlertCase> {
  const upstream = await stage.startPausedUpstream()
  upstream.faults.add({ kind: 'reset' })
  const varve = await stage.startVarve([upstream])
  return {
    alert: 'VarveNotReady',
    adminUrl: varve.adminUrl,
    isValue: Number.isNaN,
    description: /so it responds 503\.$/,
    fix: () => {
      upstream.faults.clear()
    }
  }
}

async function lags (stage: AlertEnvironment): Promise<AlertCase> {
  const upstreams = [await stage.startUpstream(), await stage.startUpstream()] as const
  const varve = await stage.startVarve(upstreams)
  return {
    alert: 'VarveUpstreamLagging',
    labels: { upstream: 'n2' },
    adminUrl: varve.adminUrl,
    // Expects 480 blocks, four a second; a busy machine makes fewer.
    isValue: value => value > 60 && value < 1000,
    description: /^Upstream n2 lags .* of 127\.0\.0\.1:\d+ by as much as the chain grows in \d+m \d+s\.$/,
    begin: () => {
      upstreams[1].faults.add({ kind: 'lag', blocks: 480 })
    },
    fix: () => {
      upstreams[1].faults.clear()
    }
  }
}

async function quarantined (stage: AlertEnvironment): Promise<AlertCase> {
  const upstreams = [await stage.startPausedUpstream(), await stage.startPausedUpstream()] as const
  const varve = await stage.startVarve(upstreams)
  return {
    alert: 'VarveUpstreamQuarantined',
    labels: { upstream: 'n2', state: 'quarantined' },
    adminUrl: varve.adminUrl,
    isValue: isOne,
    description: /^Upstream n2 serves another chain than 127\.0\.0\.1:\d+, so it is quarantined/,
    begin: () => {
      upstreams[1].faults.add({ kind: 'otherChain', chainId: 5 })
    },
    fix: () => {
      upstreams[1].faults.clear()
    }
  }
}

async function backsOff (stage: AlertEnvironment): Promise<AlertCase> {
  const upstream = await stage.startPausedUpstream()
  const varve = await stage.startVarve([upstream])
  return {
    alert: 'VarveUpstreamBackingOff',
    labels: { upstream: 'n1', state: 'backing_off' },
    adminUrl: varve.adminUrl,
    isValue: value => value > 0.5 && value <= 1,
    description: /^Upstream n1 responds 429 .* was backing off for [\d.]+% /,
    begin: async () => {
      upstream.faults.add({ kind: 'rateLimited', retryAfter: '600', times: 1, match: 'account_modules' })
      await varve.get(newHistoryTarget(2000))
    }
  }
}

/** Fails three of ten client reads of one upstream. */
async function errors (stage: AlertEnvironment): Promise<AlertCase[]> {
  const upstream = await stage.startPausedUpstream()
  const varve = await stage.startVarve([upstream])
  const begin = (): void => {
    upstream.faults.add({ kind: 'error', code: 'internal_error', status: 500, match: 'account_modules', share: 0.3 })
  }
  const fix = (): void => {
    upstream.faults.clear()
  }
  stage.repeat(100, async nth => await varve.get(newHistoryTarget(500 + nth)))
  return [
    {
      alert: 'VarveReadsFailing',
      adminUrl: varve.adminUrl,
      isValue: value => value > 0.05 && value < 0.7,
      description: /[\d.]+% of the requests to .* got a response with status 500 or above\.$/,
      begin,
      fix
    },
    {
      alert: 'VarveUpstreamErrors',
      labels: { upstream: 'n1' },
      adminUrl: varve.adminUrl,
      isValue: value => value > 0.05 && value < 0.7,
      description: /[\d.]+% .* to upstream n1 got no response or a status of 500 or above\.$/,
      fix: () => {}
    }
  ]
}

/** Sends more to an upstream than its concurrency limit. */
async function exhausted (stage: AlertEnvironment): Promise<AlertCase[]> {
  const upstream = await stage.startPausedUpstream()
  const varve = await stage.startVarve([upstream], {}, { maxConcurrent: 1 })
  const begin = (): void => {
    upstream.faults.add({ kind: 'slow', ms: 1000, match: 'account_modules' })
    stage.repeat(100, async nth => await sendRequest(varve.url, newHistoryTarget(500 + nth)))
  }
  return [
    // Counts seven client reads and varve's own requests, eight at most.
    {
      alert: 'VarveReadsQueued',
      labels: { upstream: 'n1' },
      adminUrl: varve.adminUrl,
      isValue: value => value >= 1 && value <= 15,
      description: /at least \d+ reads of .* were queued at every scrape/,
      begin
    },
    {
      alert: 'VarveUpstreamSlotsExhausted',
      labels: { upstream: 'n1' },
      adminUrl: varve.adminUrl,
      isValue: value => value > 0.5 && value < 1,
      description: /[\d.]+% of the requests to upstream n1 got no slot/
    }
  ]
}

async function chainStalls (stage: AlertEnvironment): Promise<AlertCase> {
  const upstream = await stage.startPausedUpstream()
  const varve = await stage.startVarve([upstream])
  return {
    alert: 'VarveHeadStalled',
    adminUrl: varve.adminUrl,
    isValue: isZero,
    description: /none has reached a new version/,
    fix: () => {
      stage.growChain(upstream)
    }
  }
}

async function stale (stage: AlertEnvironment): Promise<AlertCase> {
  const upstream = await stage.startUpstream()
  const varve = await stage.startVarve([upstream])
  stage.repeat(200, async () => await varve.get('/v1/accounts/0x1/modules?limit=1'))
  return {
    alert: 'VarveStaleLatest',
    adminUrl: varve.adminUrl,
    isValue: value => value > 0.5 && value < 1.5,
    description: /[\d.]+% .* could be served only from behind the served head\.$/,
    begin: () => {
      upstream.faults.add({ kind: 'lag', blocks: 400 })
    },
    fix: () => {
      upstream.faults.clear()
    }
  }
}

async function reset (stage: AlertEnvironment): Promise<AlertCase> {
  const upstream = await stage.startPausedUpstream()
  const varve = await stage.startVarve([upstream])
  return {
    alert: 'VarveChainReset',
    adminUrl: varve.adminUrl,
    isValue: value => value >= 1 && value < 2.5,
    description: /; resets in 15 minutes: [12]\./,
    begin: () => {
      upstream.faults.add({ kind: 'otherChain' })
    },
    fix: () => {}
  }
}
