import { type Test } from 'tap'
import { ask } from '../client.js'
import { nodeOf, portOf } from '../replicas.js'
import { readAt, type Stage, type Trouble } from './stage.js'

const isOne = (value: number): boolean => value === 1
const isZero = (value: number): boolean => value === 0

/** What befalls nodes, and what varve makes of it. */
export async function nodeTroubles (t: Test, stage: Stage): Promise<Trouble[]> {
  return (await Promise.all([
    nodeStops(t, stage),
    nobodyAnswers(stage),
    notReady(stage),
    lags(stage),
    fenced(stage),
    rests(stage),
    errors(stage),
    exhausted(stage),
    standsStill(stage),
    stale(stage),
    reset(stage)
  ])).flat()
}

async function nodeStops (t: Test, stage: Stage): Promise<Trouble> {
  const nodes = [await stage.stillNode(), await stage.stillNode()] as const
  const varve = await stage.varve(nodes)
  return {
    alert: 'VarveNodeDown',
    labels: { upstream: 'n1' },
    adminUrl: varve.adminUrl,
    isValue: isZero,
    words: /^For two minutes n1 has not answered 127\.0\.0\.1:\d+ as a node does/,
    begin: async () => {
      await nodes[0].close()
    },
    mend: async () => {
      await nodeOf(t, { prunedBlocks: 0, port: portOf(nodes[0]) })
    }
  }
}

async function nobodyAnswers (stage: Stage): Promise<Trouble> {
  const node = await stage.stillNode()
  const varve = await stage.varve([node])
  return {
    alert: 'VarveNoNodeAnswers',
    adminUrl: varve.adminUrl,
    isValue: isZero,
    words: /^For a minute no node has answered/,
    begin: () => {
      node.faults.add({ kind: 'reset' })
    },
    mend: () => {
      node.faults.clear()
    }
  }
}

async function notReady (stage: Stage): Promise<Trouble> {
  const node = await stage.stillNode()
  node.faults.add({ kind: 'reset' })
  const varve = await stage.varve([node])
  return {
    alert: 'VarveNotReady',
    adminUrl: varve.adminUrl,
    isValue: Number.isNaN,
    words: /so it answers 503\.$/,
    mend: () => {
      node.faults.clear()
    }
  }
}

async function lags (stage: Stage): Promise<Trouble> {
  const nodes = [await stage.node(), await stage.node()] as const
  const varve = await stage.varve(nodes)
  return {
    alert: 'VarveNodeLags',
    labels: { upstream: 'n2' },
    adminUrl: varve.adminUrl,
    // 480 blocks, of which there are four in a second, and fewer on a machine that has much to do.
    isValue: value => value > 60 && value < 1000,
    words: /^n2 is behind what 127\.0\.0\.1:\d+ shows, by as much as the chain grows in \d+m \d+s\.$/,
    begin: () => {
      nodes[1].faults.add({ kind: 'lag', blocks: 480 })
    },
    mend: () => {
      nodes[1].faults.clear()
    }
  }
}

async function fenced (stage: Stage): Promise<Trouble> {
  const nodes = [await stage.stillNode(), await stage.stillNode()] as const
  const varve = await stage.varve(nodes)
  return {
    alert: 'VarveNodeFenced',
    labels: { upstream: 'n2', state: 'fenced' },
    adminUrl: varve.adminUrl,
    isValue: isOne,
    words: /^What n2 says cannot be of the chain/,
    begin: () => {
      nodes[1].faults.add({ kind: 'otherChain', chainId: 5 })
    },
    mend: () => {
      nodes[1].faults.clear()
    }
  }
}

async function rests (stage: Stage): Promise<Trouble> {
  const node = await stage.stillNode()
  const varve = await stage.varve([node])
  return {
    alert: 'VarveNodeRests',
    labels: { upstream: 'n1', state: 'resting' },
    adminUrl: varve.adminUrl,
    isValue: value => value > 0.5 && value <= 1,
    words: /was to be left alone for [\d.]+%, since it has answered/,
    begin: async () => {
      node.faults.add({ kind: 'rateLimited', retryAfter: '600', times: 1, match: 'account_modules' })
      await varve.get(readAt(2000))
    }
  }
}

/** Three reads in ten of all that one node is asked for by clients. */
async function errors (stage: Stage): Promise<Trouble[]> {
  const node = await stage.stillNode()
  const varve = await stage.varve([node])
  const begin = (): void => {
    node.faults.add({ kind: 'error', code: 'internal_error', status: 500, match: 'account_modules', share: 0.3 })
  }
  const mend = (): void => {
    node.faults.clear()
  }
  stage.again(100, async nth => await varve.get(readAt(500 + nth)))
  return [
    {
      alert: 'VarveReadsFail',
      adminUrl: varve.adminUrl,
      isValue: value => value > 0.05 && value < 0.7,
      words: /[\d.]+% were answered with a status of 500 or above/,
      begin,
      mend
    },
    {
      alert: 'VarveNodeErrors',
      labels: { upstream: 'n1' },
      adminUrl: varve.adminUrl,
      isValue: value => value > 0.05 && value < 0.7,
      words: /[\d.]+% came to no answer or to a status of 500 or above\.$/,
      mend: () => {}
    }
  ]
}

/** More is to be asked of a node than it may be asked for. */
async function exhausted (stage: Stage): Promise<Trouble[]> {
  const node = await stage.stillNode()
  const varve = await stage.varve([node], {}, { maxConcurrent: 1 })
  const begin = (): void => {
    node.faults.add({ kind: 'slow', ms: 1000, match: 'account_modules' })
    stage.again(100, async nth => await ask(varve.url, readAt(500 + nth)))
  }
  return [
    // Seven of clients, and what varve asks of itself, which is eight at most.
    {
      alert: 'VarveReadsWaitForNode',
      labels: { upstream: 'n1' },
      adminUrl: varve.adminUrl,
      isValue: value => value >= 1 && value <= 15,
      words: /at least \d+ reads of .* have been waiting at every look/,
      begin
    },
    {
      alert: 'VarveNodeBudgetExhausted',
      labels: { upstream: 'n1' },
      adminUrl: varve.adminUrl,
      isValue: value => value > 0.5 && value < 1,
      words: /, [\d.]+% found no turn/
    }
  ]
}

async function standsStill (stage: Stage): Promise<Trouble> {
  const node = await stage.stillNode()
  const varve = await stage.varve([node])
  return {
    alert: 'VarveHeadStandsStill',
    adminUrl: varve.adminUrl,
    isValue: isZero,
    words: /none of them has got further/,
    mend: () => {
      stage.grows(node)
    }
  }
}

async function stale (stage: Stage): Promise<Trouble> {
  const node = await stage.node()
  const varve = await stage.varve([node])
  stage.again(200, async () => await varve.get('/v1/accounts/0x1/modules?limit=1'))
  return {
    alert: 'VarveStaleLatest',
    adminUrl: varve.adminUrl,
    isValue: value => value > 0.5 && value < 1.5,
    words: /[\d.]+% could be answered only from behind a position already shown\.$/,
    begin: () => {
      node.faults.add({ kind: 'lag', blocks: 400 })
    },
    mend: () => {
      node.faults.clear()
    }
  }
}

async function reset (stage: Stage): Promise<Trouble> {
  const node = await stage.stillNode()
  const varve = await stage.varve([node])
  return {
    alert: 'VarveChainReset',
    adminUrl: varve.adminUrl,
    isValue: value => value >= 1 && value < 2.5,
    words: /; how often in 15 minutes: [12]\./,
    begin: () => {
      node.faults.add({ kind: 'otherChain' })
    },
    mend: () => {}
  }
}
