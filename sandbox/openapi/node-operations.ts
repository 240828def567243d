import { z } from 'zod'
import { gasEstimate, health, index, nodeInfo } from '../schema/node.js'
import { bcsBody } from './bcs-body.js'
import { type Operation } from './operation-definition.js'

const text = z.string()

/** Operations of the routes that describe the node. */
export const nodeOperations = {
  'GET /v1': {
    tag: 'node',
    summary: 'The position of the node',
    description: 'The cheapest way to read the newest version. `/v1/` is an alias.',
    parameterKeys: [],
    responseSchemas: { 'application/json': index, 'application/x-bcs': bcsBody },
    errors: [400, 403, 500, 503]
  },
  'GET /v1/info': {
    tag: 'node',
    summary: 'The configuration of the node',
    description: 'Always JSON, without position headers. Some hosted providers return the index object instead.',
    parameterKeys: [],
    responseSchemas: { 'application/json': z.union([nodeInfo, index]) },
    isUnstamped: true,
    errors: [400, 403, 500, 503]
  },
  'GET /v1/estimate_gas_price': {
    tag: 'node',
    summary: 'The gas price estimate',
    description: 'The gas unit prices that recent full blocks would have required. BCS contains only the ' +
      'standard price.',
    parameterKeys: [],
    responseSchemas: { 'application/json': gasEstimate, 'application/x-bcs': bcsBody },
    errors: [400, 403, 500, 503]
  },
  'GET /v1/-/healthy': {
    tag: 'node',
    summary: 'The health of the node',
    description: 'A node is healthy if it lags by at most `duration_secs`.',
    parameterKeys: ['duration_secs'],
    responseSchemas: { 'application/json': health },
    errors: [400, 503]
  },
  'GET /v1/spec': specOperation('spec', 'This document as HTML', { 'text/html': text }),
  'GET /v1/spec.json': specOperation('spec_json', 'This document as JSON', {
    'application/json': z.looseObject({ openapi: text })
  }),
  'GET /v1/spec.yaml': specOperation('spec_yaml', 'This document as YAML', { 'application/x-yaml': text }, {
    'content-disposition': 'The file name of the document.'
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
    description: 'Ignores `Accept` and has no position headers.',
    parameterKeys: [],
    responseSchemas,
    isUnstamped: true,
    otherHeaders,
    errors: [400]
  }
}
