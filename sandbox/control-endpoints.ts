import { type IncomingMessage, type ServerResponse } from 'node:http'
import { readAddress } from './address.js'
import { isFault } from './faults.js'
import { Ledger, type LedgerOptions } from './ledger.js'
import { type SandboxNode, readBody } from './serve-request.js'
import { fundAccount } from './submit-transaction.js'
import { pendingTransactions } from './transactions.js'

const maxControlBodyBytes = 65_536
// A hundredth of what the faucet has; client libraries reserve a fifth of it for gas.
const maxFunding = 10_000_000_000

/** True for the sandbox's own control paths, which no full node has. */
export function isControlTarget (rawTarget: string): boolean {
  return /^\/sandbox(?:[/?]|$)/.test(rawTarget)
}

/** Serves the control endpoints; the request log does not count these requests. */
export async function serveControl (
  node: SandboxNode,
  request: IncomingMessage,
  response: ServerResponse
): Promise<void> {
  const url = new URL(String(request.url), 'http://sandbox')
  const body = await readBody(request, maxControlBodyBytes)
  if (request.method === 'POST' && url.pathname === '/sandbox/fund') return serveFaucet(node, body, response)
  const problem = applyControl(node, `${request.method} ${url.pathname}`, url.searchParams, body)
  const status = problem === undefined ? 200 : problem === 'not found' ? 404 : 400
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' })
  response.end(`${printState(problem === undefined ? describeState(node) : { message: problem })}\n`)
}

/** Funds an account as faucets of test chains do, so that client libraries can use it as one. */
function serveFaucet ({ ledger }: SandboxNode, body: Buffer, response: ServerResponse): void {
  const { address, amount } = (parseJson(body) ?? {}) as { address?: unknown, amount?: unknown }
  const to = typeof address === 'string' ? readAddress(address) : undefined
  const isAmount = typeof amount === 'number' && Number.isSafeInteger(amount) && amount > 0 && amount <= maxFunding
  const result = to === undefined || !isAmount
    ? { message: `expected {"address": "0x...", "amount": 1 to ${maxFunding}}` }
    : { txn_hashes: [fundAccount(ledger, to, BigInt(amount))] }
  response.writeHead('message' in result ? 400 : 200, { 'content-type': 'application/json; charset=utf-8' })
  response.end(`${JSON.stringify(result)}\n`)
}

/** Begins another chain on a node, and removes its faults. */
export function resetNode (node: SandboxNode, options: Partial<LedgerOptions> = {}): void {
  node.faults.clear()
  node.ledger = new Ledger({ ...node.settings, seed: node.ledger.seed + 1, ...options })
}

function applyControl (
  node: SandboxNode,
  action: string,
  params: URLSearchParams,
  body: Buffer
): string | undefined {
  const { ledger, faults } = node
  switch (action) {
    case 'GET /sandbox':
      return undefined
    case 'POST /sandbox/grow':
      return applyNumber(params.get('blocks') ?? '1', blocks => ledger.grow(blocks))
    case 'POST /sandbox/prune':
      return applyNumber(params.get('height') ?? '', height => ledger.pruneTo(height))
    case 'POST /sandbox/reset':
      return applyNumber(params.get('seed') ?? String(ledger.seed + 1), seed => resetNode(node, { seed }))
    case 'POST /sandbox/faults': {
      const fault = parseJson(body)
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

function applyNumber (text: string, change: (count: number) => void): string | undefined {
  if (!/^[0-9]{1,6}$/.test(text)) return 'a number of up to six digits is needed'
  change(Number(text))
  return undefined
}

function parseJson (body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

function describeState ({ settings, ledger, faults, requests }: SandboxNode): unknown {
  return {
    options: settings,
    release: ledger.release,
    head: ledger.head,
    oldest: ledger.oldest,
    waiting: pendingTransactions(ledger, ledger.height).map(({ hash }) => hash),
    requests: { total: requests.total, ...requests.counts },
    faults: faults.list
  }
}

// Prints a u64 as a string, since JSON.stringify rejects a bigint.
function printState (value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => typeof member === 'bigint' ? String(member) : member, 2)
}
