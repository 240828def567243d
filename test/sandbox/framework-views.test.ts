import t from 'tap'
import { frameworkViewSignatures, viewSignaturesOf } from '../../sandbox/framework-view-signatures.js'
import { startSandbox } from '#sandbox'
import { requestNode } from './request-node.js'

t.test('every callable framework view is in the ABI of its module', async t => {
  const sandbox = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  for (const [module, views] of Object.entries(frameworkViewSignatures)) {
    const { json } = await requestNode(`${sandbox.url}/v1/accounts/0x1/module/${module}`)
    for (const [name, { typeParameterCount, params, returns }] of Object.entries(views)) {
      const declared = json.abi.exposed_functions.find((each: { name: string }) => each.name === name)
      t.match(declared, {
        visibility: 'public',
        is_entry: false,
        is_view: true,
        generic_type_params: { length: typeParameterCount },
        params,
        return: returns
      })
      const body = JSON.stringify({
        function: `0x1::${module}::${name}`,
        type_arguments: typeParameterCount === 0 ? [] : ['0x1::aptos_coin::AptosCoin'],
        arguments: params.map(() => '0x1')
      })
      const response = await requestNode(`${sandbox.url}/v1/view`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body
      })
      t.match(response, { status: 200, json: { length: returns.length } }, name)
    }
  }
})

t.test('no other module declares framework views', async t => {
  for (const [address, module] of [['0x1', 'table'], ['0x42', 'coin'], ['0x1', 'constructor']] as const) {
    t.same(viewSignaturesOf(address, module), {})
  }
})
