import t, { type Test } from 'tap'
import { startSandbox } from '#sandbox'
import { getRaw, requestTableItem } from './request-node.js'
import { sendRaw } from '../support/raw.js'

async function start (t: Test) {
  const sandbox = await startSandbox({ blockMs: 0, blocks: 100, prunedBlocks: 10 })
  t.teardown(() => sandbox.close())
  return sandbox
}

t.test('a POST must state its length, and fit the limit', async t => {
  const { url } = await start(t)
  const head = 'POST /v1/tables/1/item HTTP/1.1\r\nhost: node\r\nconnection: close\r\n'
  t.match(
    await sendRaw(url, `${head}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`),
    /^HTTP\/1\.1 411 Length Required\r\ncontent-type: application\/json\r\n/
  )
  t.match(
    await sendRaw(url, `${head}content-type: application/json\r\ncontent-length: 8388609\r\n\r\n`),
    /^HTTP\/1\.1 413 .*payload too large/s
  )
  t.match(
    await sendRaw(
      url,
      'POST /nowhere HTTP/1.1\r\nhost: node\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'
    ),
    /^HTTP\/1\.1 411 /
  )
})

t.test('a body that is no UTF-8 is rejected', async t => {
  const { url } = await start(t)
  const body = Buffer.from('{"key_type":"0x1::string::String","value_type":"u64","key":"?"}')
  t.equal((await requestTableItem(url, body)).json.error_code, 'table_item_not_found')
  body[body.indexOf('?')] = 0xff
  t.match(await requestTableItem(url, body), { status: 400, json: { error_code: 'web_framework_error' } })
})

t.test('a not-found repeats the key as sent: order, number text, strings in shortest form', async t => {
  const { url, ledger } = await start(t)
  const version = ledger.head.version
  const keys: Array<[type: string, sent: string, quoted: string]> = [
    [
      '0x1::string::String',
      '"?\\u0041\\u00e9\\/\\b\\f\\n\\r\\t\\"\\\\\\u001F\\u007f"',
      '"?Aé/\\b\\f\\n\\r\\t\\"\\\\\\u001f\u007f"'
    ],
    ['u64', ' "000100" ', '"000100"'],
    ['u16', '300', '300'],
    [
      '0x42::game::Cell',
      '{ "y" : "02", "more": [1.50, -0, 1E+2, true, null, {}], "x":"1", "owner":"0xAB", "y": "2" }',
      '{"y":"2","more":[1.50,-0,1E+2,true,null,{}],"x":"1","owner":"0xAB"}'
    ]
  ]
  for (const [type, sent, quoted] of keys) {
    let missing
    for (let handle = 0; missing?.status !== 404; handle++) {
      missing = await requestTableItem(
        url,
        `{"key_type":"${type}","value_type":"u64","key":${sent}}`,
        '',
        `00${handle}`
      )
    }
    t.match(missing.json.message, /^Table Item not found by Table handle\(0x\d+\), /)
    t.ok(missing.json.message.includes(`Table key(${quoted}) and Ledger version(${version})`), missing.json.message)
    t.equal(missing.json.error_code, 'table_item_not_found')
    t.equal(missing.headers['x-aptos-ledger-version'], `${version}`)
  }
})

t.test('raw targets are read as they are: a plus in a path is a plus', async t => {
  const { url, ledger } = await start(t)
  t.match(await getRaw(url, `/v1/blocks/by_version/+${ledger.head.version}`), /^HTTP\/1\.1 200 OK/)
  t.match(await getRaw(url, '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'), /^HTTP\/1\.1 200 OK/)
})
