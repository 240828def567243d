import t from 'tap'
import { emittedFamiliesOf, makeCursorAndGasHeaders, readCursorAndGas } from '../../src/proxy/cursor-and-gas-headers.js'
import { type UpstreamResponse } from '../../src/api/upstream-response.js'

const response: UpstreamResponse = {
  status: 200,
  headers: { 'x-aptos-cursor': 'ab' },
  body: Buffer.alloc(0),
  rest: undefined,
  isFramed: true,
  stamped: undefined,
  release: undefined
}

t.test('no per-response header is sent while no header family is known', async t => {
  t.same(makeCursorAndGasHeaders(readCursorAndGas(response, undefined), ['node', 'upstream'], undefined), [])
  t.same(emittedFamiliesOf(['upstream'], undefined), ['x-node-'])
})

t.test('a header family equal to the specification\'s is sent once', async t => {
  t.same(emittedFamiliesOf(['node', 'upstream'], 'x-node-'), ['x-node-'])
})
