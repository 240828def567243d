/** Request of an operation. */
export interface OperationRequest {
  readonly path: string
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string
}

const posted = (path: string, body: unknown, headers: Record<string, string> = {}): OperationRequest => ({
  path,
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body)
})

/** Returns a successful request for each operation of docs/openapi.yaml; `hash` is of an existing transaction. */
export function operationRequests (hash: string): Readonly<Record<string, OperationRequest>> {
  return {
    index: { path: '/v1' },
    info: { path: '/v1/info' },
    estimate_gas_price: { path: '/v1/estimate_gas_price' },
    table_item: posted('/v1/tables/0x5eed/item?ledger_version=2000', {
      key_type: 'u64',
      value_type: '0x42::shop::Item',
      key: '7'
    }),
    raw_table_item: posted('/v1/tables/0x5eed/raw_item', { key: '0x0700000000000000' }, {
      accept: 'application/x-bcs'
    }),
    view: posted('/v1/view', { function: '0x1::timestamp::now_microseconds', type_arguments: [], arguments: [] }),
    account: { path: '/v1/accounts/0x1' },
    account_resources: { path: '/v1/accounts/0x1/resources?limit=3' },
    account_resource: { path: '/v1/accounts/0x1/resource/0x1::block::BlockResource' },
    account_balance: { path: '/v1/accounts/0xcafe/balance/0x1::aptos_coin::AptosCoin' },
    account_module: { path: '/v1/accounts/0x1/module/coin' },
    account_modules: { path: '/v1/accounts/0x1/modules?limit=5' },
    account_events: { path: '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events' },
    events_by_creation_number: { path: '/v1/accounts/0x1/events/3' },
    block_by_version: { path: '/v1/blocks/by_version/2000?with_transactions=true' },
    block_by_height: { path: '/v1/blocks/by_height/200' },
    transactions: { path: '/v1/transactions?start=2000' },
    transaction_by_version: { path: '/v1/transactions/by_version/2000' },
    transaction_by_hash: { path: `/v1/transactions/by_hash/${hash}` }
  }
}
