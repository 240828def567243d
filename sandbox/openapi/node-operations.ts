import { z } from 'zod'
import { gasEstimate, health, index, nodeInfo } from '../schema/node.js'
import { bcsBody } from './bcs-body.js'
import { type Operation } from './operation.js'

const text = z.string()

/** Operations of the routes that describe the node. */
export const nodeOperations = {
  'GET /v1': {
    tag: 'node',
    summary: 'Where the node stands',
    description: 'The cheapest way to learn the newest version. `/v1/` is the same.',
    parameterKeys: [],
    responseSchemas: { 'application/json': index, 'application/x-bcs': bcsBody },
    errors: [400, 403, 500, 503]
  },
  'GET /v1/info': {
    tag: 'node',
    summary: 'What the node is configured as',
    description:
      'JSON whatever is asked for, and without a position. Some hosted providers answer the index object here.',
    parameterKeys: [],
    responseSchemas: { 'application/json': z.union([nodeInfo, index]) },
    isUnstamped: true,
    errors: [400, 403, 500, 503]
  },
  'GET /v1/estimate_gas_price': {
    tag: 'node',
    summary: 'What gas costs',
    description: 'What it would have taken to get into the newest blocks that were full. In BCS the usual price alone.',
    parameterKeys: [],
    responseSchemas: { 'application/json': gasEstimate, 'application/x-bcs': bcsBody },
    errors: [400, 403, 500, 503]
  },
  'GET /v1/-/healthy': {
    tag: 'node',
    summary: 'Whether the node is well',
    description: 'Well is a node that is no further behind than it is asked about.',
    parameterKeys: ['duration_secs'],
    responseSchemas: { 'application/json': health },
    errors: [400, 503]
  },
  'GET /v1/spec': specOperation('spec', 'This document, for people', { 'text/html': text }),
  'GET /v1/spec.json': specOperation('spec_json', 'This document as JSON', {
    'application/json': z.looseObject({ openapi: text })
  }),
  'GET /v1/spec.yaml': specOperation('spec_yaml', 'This document as YAML', { 'application/x-yaml': text }, {
    'content-disposition': 'What to call it as a file.'
  })
} as const satisfies Record<string, Operation>

function specOperation (
  id: string,
  summary: string,
  responseSchemas: Operation['responseSchemas'],
  otherHeaders: Record<string, string> = {}
): Operation {
  return {
    id,
    tag: 'node',
    summary,
    description: 'Whatever form is asked for, and without a position.',
    parameterKeys: [],
    responseSchemas,
    isUnstamped: true,
    otherHeaders,
    errors: [400]
  }
}
