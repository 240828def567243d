import t from 'tap'
import { readBearerToken, ClientKeys } from '../../src/clients/client-keys.js'

const keys = new ClientKeys([{ name: 'shop', key: 'k-shop' }, { name: 'wallet', key: 'k-wallet' }])

t.test('a client is known by its key as a bearer or as an API key, and by nothing that is nearly one', async t => {
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
    // As Node joins two lines of one name.
    [{ 'x-api-key': 'k-shop, k-shop' }, undefined],
    [{ 'x-api-key': ['k-shop', 'k-shop'] }, undefined],
    [{}, undefined]
  ]
  for (const [headers, name] of cases) t.equal(keys.nameFor(headers), name, JSON.stringify(headers))
  t.equal(new ClientKeys([]).nameFor({ authorization: 'Bearer k-shop' }), undefined)
})

t.test('no key can be had from what is kept of it', async t => {
  t.notMatch(JSON.stringify(keys), /k-shop|k-wallet/)
})

t.test('a bearer is what stands behind its scheme, blanks around it apart', async t => {
  t.same(['Bearer a', 'BEARER  a ', 'Bearer', 'Bearer a b', 'Token a', undefined].map(readBearerToken), [
    'a',
    'a',
    undefined,
    'a b',
    undefined,
    undefined
  ])
})
