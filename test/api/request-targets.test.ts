import t from 'tap'
import { matchEndpoint } from '../../src/api/read-request.js'
import {
  blockByHeightTarget,
  blockByVersionTarget,
  gasEstimateTarget,
  indexTarget,
  isReadByPost,
  streamPathOf
} from '../../src/api/request-targets.js'

const account = `0x${'0'.repeat(63)}1`

t.test('every printed target leads to its endpoint', async t => {
  for (
    const [target, name] of [
      [indexTarget, 'index'],
      [gasEstimateTarget, 'estimate_gas_price'],
      [blockByHeightTarget(7n), 'block_by_height'],
      [blockByVersionTarget(7n, false), 'block_by_version'],
      [blockByVersionTarget(7n, true), 'block_by_version'],
      [streamPathOf(account, 3n), 'events_by_creation_number']
    ] as const
  ) t.equal(matchEndpoint(target, 'GET')?.endpoint.name, name, target)
})

t.test('views and table items may be sent again, a transaction may not', async t => {
  for (const target of ['/v1/view', '/v1/view?ledger_version=7', '/key/v1/tables/0x1/item']) {
    t.ok(isReadByPost(target), target)
  }
  for (const target of ['/v1/transactions', '/v1/viewer', '/v1']) t.notOk(isReadByPost(target), target)
})
