import t from 'tap'
import { isReadByPost } from '../../src/api/request-targets.js'

t.test('views and table items may be sent again, a transaction may not', async t => {
  for (const target of ['/v1/view', '/v1/view?ledger_version=7', '/key/v1/tables/0x1/item']) {
    t.ok(isReadByPost(target), target)
  }
  for (const target of ['/v1/transactions', '/v1/viewer', '/v1']) t.notOk(isReadByPost(target), target)
})
