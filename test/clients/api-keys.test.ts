import t from 'tap'
import { ApiKeys } from '../../src/clients/api-keys.js'

const keys = new ApiKeys([{ name: 'shop', key: 'k-shop' }, { name: 'wallet', key: 'k-wallet' }])

t.test('a client is identified by its exact key as bearer token or API key', async t => {
  const cases: Array<[headers: Record<string, string | string[]>, name: string | undefined]> = [
    [{ authorization: 'Bearer k-shop' }, 'shop'],
    [{ authorization: 'bearer   k-wallet' }, 'wallet'],
    [{ 'x-api-key': 'k-wallet' }, 'wallet'],
    [{ authorization: 'Bearer k-shop', 'x-api-key': 'k-wallet' }, 'shop'],
    [{ authorization: 'Bearer other', 'x-api-key': 'k-wallet' }, 'wallet'],
    [{ authorization: 'Basic k-shop' }, undefined],
    [{ authorization: 'k-shop' }, undefined],
    [{ authorization: 'Bearer k-shop k-shop' }, undefined],
    [{ authorization: 'Bearer k-sho' }, undefined],
    [{ authorization: 'Bearer k-shop2' }, undefined],
    [{ authorization: 'Bearer K-SHOP' }, undefined],
    [{ authorization: 'Bearer ' }, undefined],
    [{ 'x-api-key': '' }, undefined],
    [{ 'x-api-key': 'shop' }, undefined],
    // Node.js joins repeated headers like this.
    [{ 'x-api-key': 'k-shop, k-shop' }, undefined],
    [{ 'x-api-key': ['k-shop', 'k-shop'] }, undefined],
    [{}, undefined]
  ]
  for (const [headers, name] of cases) t.equal(keys.nameFor(headers), name, JSON.stringify(headers))
  t.equal(new ApiKeys([]).nameFor({ authorization: 'Bearer k-shop' }), undefined)
})

t.test('client keys cannot be read back from memory', async t => {
  t.notMatch(JSON.stringify(keys), /k-shop|k-wallet/)
})
