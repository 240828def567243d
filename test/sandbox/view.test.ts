import t from 'tap'
import { releases } from '#sandbox'
import { requestNode, type NodeResponse, requestTableItem } from './request-node.js'
import { startSandboxNode } from '../support/replicas.js'

const bcs = { accept: 'application/x-bcs' }
const json = { 'content-type': 'application/json' }
const binary = { 'content-type': 'application/x.aptos.view_function+bcs' }
const owner = (digits: string): string => digits.padStart(64, '0')
const text = (word: string): string =>
  `${word.length.toString(16).padStart(2, '0')}${Buffer.from(word).toString('hex')}`
const apt = `07${owner('1')}${text('aptos_coin')}${text('AptosCoin')}00`

async function view (
  base: string,
  request: unknown,
  query = '',
  headers: Record<string, string> = json
): Promise<NodeResponse> {
  const body = typeof request === 'string' ? request : Buffer.isBuffer(request) ? request : JSON.stringify(request)
  return await requestNode(`${base}/v1/view${query}`, { method: 'POST', headers, body })
}

function call (name: string, args: unknown[] = [], types: string[] = []) {
  return { function: `0xfeed::oracle::${name}`, type_arguments: types, arguments: args }
}

function bytesOf (
  name: string,
  args: string[] = [],
  types: string[] = [],
  module = 'oracle',
  address = 'feed'
): Buffer {
  const sized = args.map(arg => `${(arg.length / 2).toString(16).padStart(2, '0')}${arg}`)
  return Buffer.from(
    [
      owner(address),
      text(module),
      text(name),
      types.length.toString().padStart(2, '0'),
      ...types,
      args.length.toString().padStart(2, '0'),
      ...sized
    ].join(''),
    'hex'
  )
}

t.test('a view returns the list of results, with the position and the gas used', async t => {
  const { url, ledger } = await startSandboxNode(t)
  const response = await view(url, call('height'))
  t.equal(response.text, '["999"]')
  t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
  t.match(response.headers['x-aptos-gas-used'], /^\d+$/)
  t.same(response.names.slice(-4), ['x-aptos-txn-encryption-key', 'x-aptos-gas-used', 'content-length', 'date'])
  t.equal((await view(url, call('height'), `?ledger_version=${ledger.block(500).lastVersion}`)).text, '["500"]')
  const inBytes = await view(url, call('height'), '', { ...json, ...bcs })
  t.equal(inBytes.headers['content-type'], 'application/x-bcs')
  t.equal(inBytes.body.toString('hex'), '01e703000000000000')
  const family = await startSandboxNode(t, { family: 'x-node-', blocks: 5, prunedBlocks: 0 })
  t.ok((await view(family.url, call('height'))).headers['x-node-gas-used'])
})

t.test('a call in JSON and in BCS has the same result and gas, in both forms', async t => {
  const { url } = await startSandboxNode(t)
  const values: ReadonlyArray<readonly [type: string, json: string, tag: string, bytes: string]> = [
    ['u8', '7', '01', '07'],
    ['u128', '"340282366920938463463374607431768211455"', '03', 'ff'.repeat(16)],
    ['i64', '"-5"', '0f', 'fbffffffffffffff'],
    ['bool', 'true', '00', '01'],
    [
      '0x1::string::String',
      '"héé"',
      `07${owner('1')}${text('string')}${text('String')}00`,
      `05${Buffer.from('héé').toString('hex')}`
    ],
    ['vector<u8>', '"0xab00"', '0601', '02ab00'],
    ['vector<u64>', '["1","2"]', '0602', `02${'01'.padEnd(16, '0')}${'02'.padEnd(16, '0')}`],
    [
      '0x1::option::Option<address>',
      '{"vec":["0x42"]}',
      `07${owner('1')}${text('option')}${text('Option')}0104`,
      `01${owner('42')}`
    ]
  ]
  const cases: Array<[string, Buffer]> = [
    ...values.map(([type, json, tag, bytes]): [string, Buffer] => [
      `{"function":"0x0feed::oracle::echo","type_arguments":["${type}"],"arguments":[${json}]}`,
      bytesOf('echo', [bytes], [tag])
    ]),
    [
      JSON.stringify(call('price_of', ['7'], ['0x42::game::Line< u8 >'])),
      bytesOf('price_of', ['0700000000000000'], [`07${owner('42')}${text('game')}${text('Line')}0101`])
    ],
    [JSON.stringify(call('balance_of', ['CAFE'])), bytesOf('balance_of', [owner('cafe')])],
    [
      JSON.stringify(call('echo', [{ y: '2', x: '1', owner: '0x3' }], ['0x42::game::Cell'])),
      bytesOf('echo', [`0100000000000000${'02'}${'00'.repeat(7)}${owner('3')}`], [
        `07${owner('42')}${text('game')}${text('Cell')}00`
      ])
    ],
    [
      JSON.stringify(call('echo', ['0x7'], ['0x1::object::Object<0x1::a::B>'])),
      bytesOf('echo', [owner('7')], [
        `07${owner('1')}${text('object')}${text('Object')}0107${owner('1')}${text('a')}${text('B')}00`
      ])
    ]
  ]
  for (const [one, other] of cases) {
    for (const accept of [{}, bcs]) {
      const [first, second] = [
        await view(url, one, '', { ...json, ...accept }),
        await view(url, other, '', { ...binary, ...accept })
      ]
      t.equal(first.status, 200, first.text)
      t.equal(second.status, 200, second.text)
      t.ok(first.body.equals(second.body), `${first.text} ${second.text}`)
      t.equal(first.headers['x-aptos-gas-used'], second.headers['x-aptos-gas-used'])
    }
  }
  for (const [index, [, json]] of values.entries()) t.equal((await view(url, cases[index]?.[0])).text, `[${json}]`)
  t.equal((await view(url, cases.at(-2)?.[0])).text, '[{"owner":"0x3","x":"1","y":"2"}]')
  t.equal((await view(url, cases.at(-1)?.[0])).text, '[{"inner":"0x7"}]')
})

t.test('a view agrees with the state', async t => {
  const { url, ledger } = await startSandboxNode(t)
  const coin = '0x1::aptos_coin::AptosCoin'
  for (const version of [ledger.oldest.version, ledger.head.version]) {
    const at = `?ledger_version=${version}`
    for (const account of ['0xcafe', '0xa11ce', '0xdead']) {
      const balance = (await requestNode(`${url}/v1/accounts/${account}/balance/${encodeURIComponent(coin)}${at}`)).text
      t.equal((await view(url, call('balance_of', [account]), at)).text, `["${balance}"]`)
      t.equal(
        (await view(url, { function: '0x1::coin::balance', type_arguments: [coin], arguments: [account] }, at)).text,
        `["${balance}"]`
      )
    }
    const block = ledger.blockOf(version)
    t.same(
      (await view(url, { function: '0x1::block::get_current_block_height', type_arguments: [], arguments: [] }, at))
        .json,
      [`${block.height}`]
    )
    t.same(
      (await view(url, { function: '0x1::timestamp::now_microseconds', type_arguments: [], arguments: [] }, at)).json,
      [`${block.timestampUsec}`]
    )
  }
  t.same((await view(url, { function: '0x1::coin::balance', type_arguments: ['u8'], arguments: ['0xcafe'] })).json, [
    '0'
  ])
})

t.test('each view in the ABI of a module can be called, at every release', async t => {
  const { url, ledger } = await startSandboxNode(t)
  const samples: Record<string, unknown> = {
    u8: 1,
    u64: '1',
    u128: '1',
    bool: true,
    address: '0x1',
    T0: '5',
    '0x1::string::String': 'text',
    'vector<u8>': '0x01',
    'vector<u64>': ['1'],
    '0x1::option::Option<address>': { vec: [] }
  }
  for (const release of Object.values(releases)) {
    ledger.release = release
    for (const id of ['0x1::block', '0x1::coin', '0x1::timestamp', '0xfeed::oracle']) {
      const { abi } = (await requestNode(`${url}/v1/accounts/${id.replace('::', '/module/')}`)).json
      t.equal('is_enum' in abi.structs[0], release !== releases.events)
      t.equal('variants' in abi.structs[0], release === releases.variants)
      const views = abi.exposed_functions.filter((each: any) => each.is_view)
      t.ok(views.length > 0)
      for (const { name, params, return: returns, generic_type_params: types } of views) {
        const response = await view(url, {
          function: `${id}::${name}`,
          type_arguments: types.map(() => 'u64'),
          arguments: params.map((param: string) => samples[param])
        })
        t.match(response, { status: 200, json: { length: returns.length } }, name)
      }
    }
  }
})

t.test('bytes that are no call are rejected by the ledger', async t => {
  const { url } = await startSandboxNode(t, { blocks: 5, prunedBlocks: 0 })
  const whole = bytesOf('echo', ['0700000000000000'], ['02'])
  t.equal((await view(url, whole, '', { 'content-type': 'Application/X.Aptos.View_Function+BCS; v=1' })).text, '["7"]')
  t.equal((await view(url, bytesOf('balance', [owner('cafe')], [apt], 'coin', '1'), '', binary)).status, 200)
  const bad = [
    Buffer.alloc(0),
    whole.subarray(0, -1),
    Buffer.concat([whole, Buffer.alloc(1)]),
    whole.subarray(0, 40),
    bytesOf('echo', ['07'], ['02']),
    bytesOf('echo', ['070000000000000000'], ['02']),
    bytesOf('echo', ['02'], ['00']),
    bytesOf('echo', ['01'], ['63']),
    bytesOf('echo', ['01ff'], [`07${owner('1')}${text('string')}${text('String')}00`]),
    bytesOf('9', []),
    bytesOf('echo', ['01'], ['05']),
    bytesOf('echo', ['01'], [`07${owner('9')}${text('no')}${text('Such')}00`]),
    bytesOf('echo', [], ['02']),
    bytesOf('echo', ['0100000000000000'], ['06'.repeat(8) + '01'])
  ]
  for (const body of bad) {
    const rejected = await view(url, body, '', binary)
    t.match(
      [rejected.status, rejected.json],
      [400, { error_code: 'invalid_input', vm_error_code: null }],
      body.toString('hex')
    )
    t.ok(rejected.headers['x-aptos-chain-id'])
  }
  t.match(
    (await view(url, bytesOf('height', ['00']), '', binary)).json.message,
    /^wrong number of arguments for 0xfeed::oracle::height: expected 0, got 1$/
  )
})

t.test('a raw item is the bytes of the table item, in BCS only', async t => {
  const { url, ledger } = await startSandboxNode(t)
  const raw = async (key: unknown, query = '', headers: Record<string, string> = { ...json, ...bcs }, handle = '0x1') =>
    await requestNode(`${url}/v1/tables/${handle}/raw_item${query}`, {
      method: 'POST',
      headers,
      body: typeof key === 'string' ? key : JSON.stringify({ key })
    })
  for (
    const [type, sent, bytes, valueType] of [['u64', '7', '0700000000000000', 'u64'], [
      '0x1::string::String',
      'alice',
      '05616c696365',
      '0x42::shop::Item'
    ]] as const
  ) {
    for (const version of [ledger.oldest.version, ledger.head.version]) {
      const known = await requestTableItem(
        url,
        { key_type: type, value_type: valueType, key: sent },
        `?ledger_version=${version}`,
        '0x1',
        bcs
      )
      for (const key of [bytes, `0x${bytes.toUpperCase()}`]) {
        const response = await raw(JSON.stringify({ key, more: 1 }), `?ledger_version=${version}`)
        t.equal(response.status, 200)
        t.equal(response.headers['content-type'], 'application/x-bcs')
        t.ok(response.body.equals(known.body))
        t.ok(response.headers['x-aptos-ledger-version'])
      }
    }
  }
  let missing: NodeResponse | undefined
  for (let handle = 1; missing?.status !== 404; handle++) {
    missing = await raw(JSON.stringify({ key: 'C800000000000000' }), '', { ...json, ...bcs }, `0x${handle}`)
  }
  t.match(missing.json, {
    error_code: 'table_item_not_found',
    message:
      /^Table Item not found by Table handle\(0x\d+\), Table key\(0xc800000000000000\) and Ledger version\(\d+\)$/
  })
  t.ok(missing.headers['x-aptos-chain-id'])
})
