import { blockRead, latestModulesRead, modulesRead, type Scenario, sendPlanned } from './scenario.js'
import { shopClient } from './monitored-environment.js'

/** Reads that only the replica of the other chain gets; its traffic must not show beside the first chain. */
export async function otherChainReads (scene: Scenario): Promise<void> {
  const { environment: { other, upstreams: { elsewhere: { ledger } } }, region, beside } = scene
  const base = ledger.oldest.blockHeight + BigInt(region.above)
  const version = (nth: number): bigint => ledger.block(base + BigInt(nth)).firstVersion
  const send = async (
    read: Parameters<typeof sendPlanned>[2],
    outcome: Parameters<typeof sendPlanned>[3],
    more: Parameters<typeof sendPlanned>[4] = {},
    headers: Record<string, string> = {}
  ): Promise<void> => {
    await sendPlanned({ traffic: beside }, other, read, outcome, { leastMs: 0, ...more }, headers)
  }
  const history = [blockRead(version(0)), blockRead(version(1)), modulesRead(version(2))]
  for (const read of history) await send(read, 'miss')
  for (let round = 0; round < 4; round++) for (const read of history) await send(read, 'hit_memory')
  for (const account of [1, 2]) await send(latestModulesRead(account), 'forwarded')
  for (let round = 0; round < 2; round++) {
    await send(blockRead(ledger.oldest.version - 5000n), 'gone', { status: 410 })
    await send({ endpoint: 'other', target: '/nowhere' }, 'rejected', { status: 404 })
  }
  await send(history[0] ?? blockRead(version(0)), 'hit_memory', { client: shopClient.name }, {
    'x-api-key': shopClient.key
  })
}
