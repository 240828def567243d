import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { callOf, clientOf, readCalls, upstreamErrorCalls, varveErrorCalls } from '../support/sdk/calls.js'
import {
  type Readers,
  chainFixtureOf,
  checkSameThroughVarve,
  freshSdk,
  readerInNode
} from '../support/sdk/fresh-client.js'
import { type TestVarve, varveAtSandbox } from '../support/varve.js'

function readersOf (t: Test, sandbox: Sandbox, varve: TestVarve): Readers {
  const ground = chainFixtureOf(sandbox)
  return {
    direct: readerInNode(t, sandbox.url, ground),
    first: readerInNode(t, varve.url, ground),
    second: readerInNode(t, varve.url, ground)
  }
}

t.test('the official client reads the same through varve as directly, and history is fetched once', async t => {
  for (const pinned of [false, true]) {
    const { sandbox, varve } = await varveAtSandbox(t, {}, { pages: { pinned } })
    // Skips pinned listings, whose cursors carry a version and have a test of their own.
    const calls = readCalls.filter(({ showsCursor }) => !pinned || showsCursor !== true)
    await checkSameThroughVarve(t, sandbox, calls, 'value', readersOf(t, sandbox, varve))
  }
})

t.test('errors of the node reach the official client through varve unchanged', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  await checkSameThroughVarve(t, sandbox, upstreamErrorCalls, 'error', readersOf(t, sandbox, varve))
})

t.test('a missing account gives the same error through varve, also where nodes reject the address', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { statelessAccounts: false })
  await checkSameThroughVarve(t, sandbox, [callOf('account without resources')], 'error', readersOf(t, sandbox, varve))
})

t.test('a read that no node accepts gets varve\'s own error, which the client classifies alike', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const { direct, first } = readersOf(t, sandbox, varve)
  for (const call of varveErrorCalls) {
    const [theirs, ours] = [await direct.run(call), await first.run(call)]
    const shapeOf = ({ result }: { result: string }): unknown => {
      const { error: { message, data, ...error } } = JSON.parse(result) as {
        error: { message: string, data: { message: string, error_code: string } }
      }
      return { error, isShort: message.includes(JSON.stringify(data)), members: Object.keys(data) }
    }
    t.same(shapeOf(ours), shapeOf(theirs), call.title)
    t.match(JSON.parse(ours.result), {
      error: { class: 'AptosApiError', status: 400, data: { error_code: 'invalid_input' } }
    })
  }
  t.equal(sandbox.requests.total, varveErrorCalls.length, 'from the direct reads alone')
})

t.test('varve takes the client\'s own key and forwards it nowhere; a missing key is an error', async t => {
  t.capture(console, 'info')
  const { sandbox, varve } = await varveAtSandbox(t, {}, {
    clients: { required: true, keys: [{ name: 'app', key: 'of-the-app', requestsPerSecond: null }] }
  })
  const sdk = freshSdk()
  const read = async (config: object): Promise<unknown> =>
    await clientOf(sdk, varve.url, config).getBlockByVersion({ ledgerVersion: BigInt(chainFixtureOf(sandbox).version) })
  t.match(await read({ API_KEY: 'of-the-app' }), { block_height: '446' })
  t.match(await read({ HEADERS: { 'x-api-key': 'of-the-app' } }), { block_height: '446' })
  t.ok(sandbox.requests.total > 0)
  t.notMatch(JSON.stringify(sandbox.requests.latest), /of-the-app|authorization|api-key/i)
  for (const config of [{}, { API_KEY: 'another' }]) {
    await t.rejects(read(config), {
      name: 'AptosApiError',
      status: 401,
      data: { message: String, error_code: 'web_framework_error', vm_error_code: null }
    })
  }
})
