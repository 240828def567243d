import { type IncomingHttpHeaders } from 'node:http'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

/** A response as it came over a socket. */
export interface OperationResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

interface HeaderObject {
  readonly required: boolean
  readonly schema: { readonly type: string }
}
interface ResponseObject {
  readonly headers?: Record<string, object>
  readonly content?: Record<string, object>
}

/** A document as it is served. */
export interface OpenApi {
  readonly openapi: string
  readonly components: {
    readonly schemas: Record<
      string,
      { readonly discriminator?: { readonly propertyName: string, readonly mapping: Record<string, string> } }
    >
  }
  readonly paths: Record<
    string,
    Record<string, { readonly operationId: string, readonly responses: Record<string, ResponseObject> }>
  >
}

// Header fields of HTTP itself, which no document lists.
const ofHttp = new Set(['content-type', 'content-length', 'date', 'connection', 'keep-alive', 'transfer-encoding'])

/** Validates responses against a document strictly: anything undocumented is a complaint. */
export class OpenApiChecker {
  readonly document: OpenApi
  readonly #ajv = new Ajv2020({ strict: true, allErrors: true, allowUnionTypes: true })
  readonly #compiled = new Map<string, ValidateFunction>()

  constructor (document: OpenApi) {
    this.document = document
    // Ignores members that are no schema: the document as a whole is none, but contains some.
    for (const name of [...Object.keys(document), 'discriminator']) this.#ajv.addKeyword(name)
    this.#ajv.addFormat('uint64', text => /^[0-9]+$/.test(text) && BigInt(text) < 2n ** 64n)
    for (const name of ['uint8', 'uint16', 'uint32', 'binary']) this.#ajv.addFormat(name, true)
    this.#ajv.addSchema(document, 'document', false, false)
  }

  /** Returns every operation by name, with its method and path. */
  get operations (): Map<
    string,
    { readonly method: string, readonly path: string, readonly responses: Record<string, ResponseObject> }
  > {
    return new Map(
      Object.entries(this.document.paths).flatMap(([path, methods]) =>
        Object.entries(methods).map((
          [method, { operationId, responses }]
        ) => [operationId, { method, path, responses }])
      )
    )
  }

  /** Returns every variant that the document distinguishes: the discriminating member and its value. */
  get kinds (): string[] {
    const all = Object.values(this.document.components.schemas).flatMap(({ discriminator }) =>
      discriminator === undefined ? [] : [discriminator]
    )
    return all.flatMap(({ propertyName, mapping }) => Object.keys(mapping).map(value => `${propertyName} ${value}`))
  }

  /** Returns complaints about a response to an operation; empty if it matches the document. */
  complaints (operationId: string, { status, headers, body }: OperationResponse): string[] {
    const operation = this.operations.get(operationId)
    const pointer = `/paths/${escaped(operation?.path ?? '')}/${operation?.method}/responses/${status}`
    const response = operation?.responses[status]
    if (response === undefined) return [`${operationId} answers no ${status}`]
    const [at, definition] = this.#resolved<ResponseObject>(pointer, response)
    return [...this.#ofHeaders(at, definition, headers), ...this.#ofBody(at, definition, headers['content-type'], body)]
  }

  #ofHeaders (pointer: string, { headers = {} }: ResponseObject, came: IncomingHttpHeaders): string[] {
    const declared = new Map(
      Object.entries(headers).map((
        [name, header]
      ) => [name.toLowerCase(), this.#resolved<HeaderObject>(`${pointer}/headers/${escaped(name)}`, header)])
    )
    const unknown = Object.keys(came).filter(name => !ofHttp.has(name) && !declared.has(name)).map(name =>
      `header ${name} is not spoken of`
    )
    return [
      ...unknown,
      ...[...declared].flatMap(([name, [at, { required, schema }]]) => {
        const value = came[name]
        if (value === undefined) return required ? [`header ${name} is missing`] : []
        return this.#invalid(
          `${at}/schema`,
          schema.type === 'integer' && /^[0-9]+$/.test(String(value)) ? Number(value) : value
        ).map(text => `header ${name} ${text}`)
      })
    ]
  }

  #ofBody (pointer: string, { content = {} }: ResponseObject, type: string | undefined, body: Buffer): string[] {
    const [essence = ''] = String(type).split(';', 1)
    // Allows an empty body for an unreadable request.
    if (type === undefined && body.length === 0 && Object.keys(content).every(name => name === 'application/json')) {
      return []
    }
    if (content[essence] === undefined) return [`content type ${type} is not spoken of`]
    return this.#invalid(
      `${pointer}/content/${escaped(essence)}/schema`,
      essence === 'application/json' ? parsed(body) : body.toString('latin1')
    )
  }

  // Resolves a pointer, whose target may be a pointer as well.
  #resolved<Piece> (pointer: string, piece: object): [string, Piece] {
    if (!('$ref' in piece)) return [pointer, piece as Piece]
    const target = String(piece.$ref).slice(1)
    return [
      target,
      target.split('/').slice(1).reduce<unknown>(
        (from, part) => (from as Record<string, unknown>)[part.replaceAll('~1', '/')],
        this.document
      ) as Piece
    ]
  }

  #invalid (pointer: string, value: unknown): string[] {
    const validate = this.#compiled.get(pointer) ?? this.#ajv.compile({ $ref: `document#${encodeURI(pointer)}` })
    this.#compiled.set(pointer, validate)
    // Limits the list, because every variant that does not apply complains too.
    return validate(value)
      ? []
      : (validate.errors ?? []).slice(0, 12).map(({ instancePath, message, params }) =>
        `${instancePath} ${message} ${JSON.stringify(params)}`
      )
  }
}

/** Returns a checker that accepts no member beyond the document, because the sandbox has exactly those. */
export function strictChecker (document: OpenApi): OpenApiChecker {
  return new OpenApiChecker(JSON.parse(
    JSON.stringify(document),
    (_, value) => value?.properties === undefined ? value : { additionalProperties: false, ...value }
  ))
}

/** Returns the complaints of an OpenAPI linter; empty if it accepts the document. */
export async function lintComplaints (source: string, rules: Record<string, 'off'> = {}): Promise<string[]> {
  const config = await createConfig({ extends: ['recommended-strict'], rules })
  const problems = await lintFromString({ source, absoluteRef: 'openapi.yaml', config })
  return problems.map(({ ruleId, message, location: [first] }) => `${ruleId}: ${message} at ${first?.pointer}`)
}

function escaped (name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}

function parsed (body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

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
    raw_state_value: posted('/v1/experimental/state_values/raw', {
      key: '0x010000000000000000000000000000000000000000000000000000000000005eed080700000000000000'
    }, { accept: 'application/x-bcs' }),
    view: posted('/v1/view', { function: '0x1::timestamp::now_microseconds', type_arguments: [], arguments: [] }),
    account: { path: '/v1/accounts/0x1' },
    account_resources: { path: '/v1/accounts/0x1/resources?limit=3' },
    account_resource: { path: '/v1/accounts/0x1/resource/0x1::block::BlockResource' },
    account_balance: { path: '/v1/accounts/0xcafe/balance/0x1::aptos_coin::AptosCoin' },
    account_module: { path: '/v1/accounts/0x1/module/coin' },
    account_modules: { path: '/v1/accounts/0x1/modules?limit=5' },
    account_transactions: { path: '/v1/accounts/0xa11ce/transactions' },
    transaction_summaries: { path: '/v1/accounts/0xa11ce/transaction_summaries?limit=5' },
    auxiliary_info: { path: '/v1/transactions/auxiliary_info?start_version=2000&limit=5' },
    account_events: { path: '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events' },
    events_by_creation_number: { path: '/v1/accounts/0x1/events/3' },
    block_by_version: { path: '/v1/blocks/by_version/2000?with_transactions=true' },
    block_by_height: { path: '/v1/blocks/by_height/200' },
    transactions: { path: '/v1/transactions?start=2000' },
    transaction_by_version: { path: '/v1/transactions/by_version/2000' },
    transaction_by_hash: { path: `/v1/transactions/by_hash/${hash}` }
  }
}
