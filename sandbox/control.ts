import { type IncomingMessage, type ServerResponse } from 'node:http'
import { isFault } from './fault.js'
import { type Node } from './serve.js'
import { waitingTransactions } from './transactions.js'
import { readBody } from './wire.js'

const most = 65_536

/** Whether a target is the people's side of the sandbox rather than the node's. */
export function isControl (rawTarget: string): boolean {
  return /^\/sandbox(?:[/?]|$)/.test(rawTarget)
}

/** Shows and steers the sandbox by hand; nothing of this counts as asking the node. */
export async function control (node: Node, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(String(request.url), 'http://sandbox')
  const body = await readBody(request, most)
  const problem = steer(node, `${request.method} ${url.pathname}`, url.searchParams, body)
  const status = problem === undefined ? 200 : problem === 'not found' ? 404 : 400
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' })
  response.end(`${printed(problem === undefined ? stateOf(node) : { message: problem })}\n`)
}

function steer ({ ledger, faults }: Node, action: string, params: URLSearchParams, body: Buffer): string | undefined {
  switch (action) {
    case 'GET /sandbox':
      return undefined
    case 'POST /sandbox/grow':
      return counted(params.get('blocks') ?? '1', blocks => ledger.grow(blocks))
    case 'POST /sandbox/prune':
      return counted(params.get('height') ?? '', height => ledger.pruneTo(height))
    case 'POST /sandbox/remake':
      return counted(params.get('blocks') ?? '10', blocks => ledger.remake(blocks))
    case 'POST /sandbox/faults': {
      const fault = parsed(body)
      if (!isFault(fault)) return 'a fault is a JSON object with a known "kind"'
      faults.add(fault)
      return undefined
    }
    case 'DELETE /sandbox/faults':
      faults.clear()
      return undefined
    default:
      return 'not found'
  }
}

function counted (text: string, change: (count: number) => void): string | undefined {
  if (!/^[0-9]{1,6}$/.test(text)) return 'a number of up to six digits is needed'
  change(Number(text))
  return undefined
}

function parsed (body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

function stateOf ({ settings, ledger, faults, asked }: Node): unknown {
  return {
    options: settings,
    release: ledger.release,
    head: ledger.head,
    oldest: ledger.oldest,
    waiting: waitingTransactions(ledger, ledger.height).map(({ hash }) => hash),
    asked: { total: asked.total, ...asked.counts },
    faults: faults.list
  }
}

// A u64 is a string in JSON.
function printed (value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => typeof member === 'bigint' ? String(member) : member, 2)
}
