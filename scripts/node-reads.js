const [json, bcs] = ['application/json', 'application/x-bcs']
const coin = '0x1::aptos_coin::AptosCoin'
const blockEvents = '0x1::block::BlockResource/new_block_events'

/** Read of the index, which every node serves. */
export const indexRead = get('')

/** Returns the versions and heights at which a node with this index is read. */
export function versionsOf (index) {
  const [head, oldest] = [BigInt(index.ledger_version), BigInt(index.oldest_ledger_version ?? 0)]
  return {
    head,
    oldest,
    near: head - 200n > oldest ? head - 200n : oldest,
    middle: (head + oldest) / 2n,
    pruned: oldest / 2n,
    future: head + 1_000_000_000n,
    newest: BigInt(index.block_height),
    lowest: BigInt(index.oldest_block_height ?? 0)
  }
}

function get (path) {
  return { method: 'GET', path: `/v1${path}`, accept: json }
}

function post (path, body) {
  return { method: 'POST', path: `/v1${path}`, accept: json, contentType: json, body: JSON.stringify(body) }
}

function at (version, read) {
  return { ...read, path: `${read.path}${read.path.includes('?') ? '&' : '?'}ledger_version=${version}` }
}

function both (read) {
  return [read, { ...read, accept: bcs }]
}

/** Returns a function that lists a read of state at the head, in the window, below it and above the head. */
function atVersions ({ near, middle, pruned, future }) {
  return read => [read, at(near, read)].flatMap(both).concat([middle, pruned, future].map(version => at(version, read)))
}

/** Lists reads of one kind, each by the end of its path. */
function each (start, ends, forms = read => [read]) {
  return ends.flatMap(end => forms(get(start + end)))
}

/** Lists reads that need no more than the position of a node. */
export function firstReads ({ head, oldest, near, middle, pruned, future, newest, lowest }) {
  const heights = [newest - 20n, (newest + lowest) / 2n]
  return [
    ...each('', ['', '/estimate_gas_price'], both),
    ...each('/', ['', 'info', '-/healthy']),
    ...each('/transactions?', ['limit=100', `start=${near}&limit=100`], both),
    ...each('/transactions?start=', [near, middle, pruned, future, `${oldest}&limit=5`, `${head}&limit=10`]),
    ...each('/transactions/auxiliary_info?limit=5', ['', `&start_version=${near}`], both),
    ...each('/transactions/auxiliary_info?start_version=', [middle, oldest, pruned, future]),
    ...each('/blocks/by_height/', heights.flatMap(height => [height, `${height}?with_transactions=true`]), both),
    ...each('/blocks/by_height/', [newest, lowest, lowest / 2n, newest + 1_000_000n]),
    ...each('/blocks/by_version/', [near, `${near}?with_transactions=true`], both),
    ...each('/blocks/by_version/', [head, oldest, pruned, future])
  ]
}

/** Collects from bodies with transactions the names of what other reads can request: a few of each. */
export function factsIn (bodies) {
  const lists = bodies.map(body => body?.transactions ?? body).filter(Array.isArray)
  const transactions = lists.flat().filter(({ version, changes }) => version && changes)
  const few = (list, count, keyOf) => [...new Map(list.map(item => [keyOf(item), item])).values()].slice(0, count)
  const users = transactions.filter(user => user.sequence_number !== undefined && user.replay_protection_nonce == null)
  const sent = ({ sender }) => users.filter(user => user.sender === sender).length
  const ofType = type => transactions.flatMap(({ changes }) => changes).filter(change => change.type === type)
  // Most nodes do not decode table items, and `data` is null; a key of 128 bytes and more needs a longer length.
  const items = ofType('write_table_item').filter(({ key }) => key.length < 258).sort((a, b) => !a.data - !b.data)
  const events = transactions.flatMap(({ events }) => events ?? []).filter(event => event.sequence_number > 0)
  return {
    kinds: few(transactions, 10, ({ type, payload, signature }) => `${type} ${payload?.type} ${signature?.type}`),
    users: few(users.sort((a, b) => sent(b) - sent(a)), 2, ({ sender }) => sender),
    resources: few(ofType('write_resource').filter(({ data }) => data?.type), 6, ({ data }) => data.type),
    modules: few(ofType('write_module'), 2, ({ address }) => address),
    items: few(items, 4, ({ handle, data }) => data?.key_type ?? handle),
    streams: few(events, 3, ({ guid }) => JSON.stringify(guid))
  }
}

/** Lists reads of state and of all that was found, in other words too, and some that a node rejects. */
export function furtherReads (versions, facts) {
  return [...oddReads(versions), ...stateReads(versions, facts), ...foundReads(versions, facts)]
}

function foundReads ({ head, oldest, near }, { kinds, users, resources, modules, items, streams }) {
  const recent = read => both(at(head, read))
  return [
    ...each('/transactions/by_version/', kinds.map(({ version }) => version)),
    ...each('/transactions/by_version/', kinds.slice(0, 2).map(({ version }) => version), both),
    ...each('/transactions/by_hash/', kinds.map(({ hash }) => hash)),
    ...each('/transactions/wait_by_hash/', kinds.slice(0, 2).map(({ hash }) => hash)),
    ...users.flatMap(({ sender, sequence_number: number, version }) => [
      ...each(`/accounts/${sender}`, ['', `/balance/${coin}`, '/resources?limit=10'], recent),
      ...each(`/accounts/${sender}/transactions?limit=`, ['5', '5&start=0', `1&start=${number}`]),
      ...each(`/accounts/${sender}/transaction_summaries?limit=5`, [
        '',
        `&start_version=${near}`,
        `&start_version=${oldest}&end_version=${version}`
      ])
    ]),
    ...resources.flatMap(({ address, data }) =>
      each(`/accounts/${address}/resource/`, [encodeURIComponent(data.type)], recent)
    ),
    ...each('/accounts/', modules.map(({ address }) => `${address}/modules?limit=2`), recent),
    ...items.flatMap(({ handle, key, data }) => [
      ...data ? recent(itemRead(handle, data)) : [],
      ...rawReads(handle, key, head)
    ]),
    ...streams.flatMap(({ guid, sequence_number: number }) =>
      each(`/accounts/${guid.account_address}/events/${guid.creation_number}?limit=`, [
        '5',
        '5&start=0',
        `1&start=${number}`
      ])
    )
  ]
}

function itemRead (handle, { key, key_type: type, value_type: value = 'u64' }) {
  return post(`/tables/${handle}/item`, { key_type: type, value_type: value, key })
}

function rawReads (handle, key, version) {
  const length = Buffer.from([(key.length - 2) / 2]).toString('hex')
  const stateKey = `0x01${handle.slice(2).padStart(64, '0')}${length}${key.slice(2)}`
  const reads = [post(`/tables/${handle}/raw_item`, { key }), post('/experimental/state_values/raw', { key: stateKey })]
  return reads.flatMap(read => both(at(version, read)))
}

function stateReads (versions, { items: [item], users: [user] }) {
  const { near, newest } = versions
  const always = atVersions(versions)
  const view = (name, types = [], values = []) =>
    post('/view', { function: `0x1::${name}`, type_arguments: types, arguments: values })
  const call = Buffer.concat([Buffer.alloc(31), Buffer.from('\x01\x09timestamp\x10now_microseconds\0\0')])
  const callType = 'application/x.aptos.view_function+bcs'
  const viewInBcs = { ...post('/view'), contentType: callType, base64: call.toString('base64') }
  return [
    ...each('/accounts/0x1', ['', '/resources?limit=5', '/modules?limit=2', '/module/coin'], always),
    ...each('/accounts/0x1', ['/resource/0x1::block::BlockResource', `/balance/${coin}`], always),
    ...each('/accounts/0x1/', ['module/no', 'resource/0x1::no::No', 'balance/0xa'], read => both(at(near, read))),
    ...each(`/accounts/0x1/events/${blockEvents}?limit=5`, ['', '&start=0', `&start=${newest - 20n}`], both),
    ...each('/accounts/0x1/events/3?start=', [0, 9007199254740993n]),
    ...!item?.data ? [] : always(itemRead(item.handle, item.data)),
    at(near, itemRead('0x5eed', { key: '18446744073709551615', key_type: 'u64' })),
    ...rawReads('0x1', '0x00ff', near),
    ...always(view('timestamp::now_microseconds')),
    ...both(at(near, view('coin::balance', [coin], [user?.sender ?? '0x1']))),
    ...[viewInBcs, at(near, viewInBcs), at(near, view('no::no')), post('/view', {})]
  ]
}

/** Lists other words for reads above, and reads that a node rejects. */
function oddReads ({ near }) {
  const modules = at(near, get('/accounts/0x1/modules?limit=2'))
  return [
    at(near, get(`/accounts/${'1'.padStart(64, '0')}`)),
    ...each('/accounts/0x01', [`?ledger_version=%2B0${near}&unknown=1`, '/modules?ledger_version=x&limit=2']),
    at(near, get('/accounts/0x1/resource/0x01%3A%3Ablock%3A%3ABlockResource')),
    { ...modules, accept: 'text/html, application/x-bcs, application/json' },
    { ...modules, accept: 'application/x-bcs;q=0.9' },
    ...each('/', ['accounts/0xzz', 'accounts/0x1/resource/nothing', 'blocks/by_height/-1', 'nothing']),
    ...each('/transactions', [`?limit=100&start=${near}`, '?limit=0', '?limit=65536', `/by_hash/0x${'ab'.repeat(32)}`])
  ]
}

/** Returns the read of the page that follows in a listing; none without a cursor. */
export function nextPage ({ path, accept, headers = {} }) {
  const [, cursor] = Object.entries(headers).find(([name]) => name.endsWith('-cursor')) ?? []
  return cursor === undefined ? [] : [{ method: 'GET', path: `${path}&start=${cursor}`, accept }]
}
