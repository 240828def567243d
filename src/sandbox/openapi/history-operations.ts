import { z } from 'zod'
import { block } from '../schema/block.js'
import { versionedEvent } from '../schema/event.js'
import { bytes } from './bytes.js'
import { type Operation } from './operation.js'

const statusesOfHistory = [400, 403, 404, 410, 500, 503] as const

/** What the routes that read what has happened say. */
export const historyOperations = {
  'GET /v1/accounts/:/events/:/:': {
    tag: 'events',
    summary: 'The events of a handle',
    description: 'In ascending order: from `start` on, or the newest where it is left out. A page has 25 events unless a limit is given, and 100 at most. Where there are none, the list is empty.',
    takes: ['address', 'event_handle', 'field_name', 'start_sequence', 'limit'],
    answers: { 'application/json': z.array(versionedEvent), 'application/x-bcs': bytes },
    isStamped: true,
    own: [],
    errors: statusesOfHistory
  },
  'GET /v1/blocks/by_version/:': {
    tag: 'blocks',
    summary: 'The block that holds a version',
    description: 'Any version inside the block names it. With transactions it has as many as the node gives at most, 10,000; whether some are missing shows in its range alone.',
    takes: ['version', 'with_transactions'],
    answers: { 'application/json': block, 'application/x-bcs': bytes },
    isStamped: true,
    own: [],
    errors: statusesOfHistory
  },
  'GET /v1/blocks/by_height/:': {
    tag: 'blocks',
    summary: 'The block of a height',
    description: 'With transactions as by version.',
    takes: ['block_height', 'with_transactions'],
    answers: { 'application/json': block, 'application/x-bcs': bytes },
    isStamped: true,
    own: [],
    errors: statusesOfHistory
  }
} as const satisfies Record<string, Operation>
