import { connect, type Socket } from 'node:net'
import { type Test } from 'tap'
import { respondOk, startStubUpstream } from '../stub-upstream.js'
import { newHistoryTarget, type AlertEnvironment, type AlertCase } from './alert-environment.js'

const mega = 1024 * 1024

/** Returns cases of clients that use up slots and bytes. */
export async function budgetAlertCases (t: Test, stage: AlertEnvironment): Promise<AlertCase[]> {
  return await Promise.all([slotsHeld(t, stage), bytesExhausted(t, stage)])
}

/** Lets two clients read nothing of responses too large to store. */
async function slotsHeld (t: Test, stage: AlertEnvironment): Promise<AlertCase> {
  const body = Buffer.alloc(16 * mega, 'x')
  const upstream = await startStubUpstream(t, (_request, response) => {
    respondOk(response, body as unknown as string)
  })
  const varve = await stage.startVarve([upstream], { cache: { maxEntryMb: 1 } }, { maxConcurrent: 4 })
  const { hostname, port } = new URL(varve.url)
  const open: Socket[] = []
  return {
    alert: 'VarveStreamsHoldSlots',
    labels: { upstream: 'n1' },
    adminUrl: varve.adminUrl,
    isValue: value => value === 3 / 4,
    description: /^For five minutes 75% of the slots of upstream n1 were held by responses that stream at the pace/,
    begin: () => {
      for (const [localAddress, version] of [['127.0.0.2', 500], ['127.0.0.2', 501], ['127.0.0.3', 502]] as const) {
        const socket = connect({ host: hostname, port: Number(port), localAddress }).on('error', () => {}).pause()
        socket.write(`GET ${newHistoryTarget(version)} HTTP/1.1\r\nHost: x\r\n\r\n`)
        open.push(socket)
      }
    },
    fix: () => {
      for (const socket of open) socket.destroy()
    }
  }
}

async function bytesExhausted (t: Test, stage: AlertEnvironment): Promise<AlertCase> {
  const body = Buffer.alloc(mega, 'x')
  const upstream = await startStubUpstream(t, (_request, response) => {
    respondOk(response, body as unknown as string)
  })
  const varve = await stage.startVarve([upstream], { limits: { inFlightMb: 1 } })
  let end = (): void => {}
  return {
    alert: 'VarveInFlightBytesExhausted',
    adminUrl: varve.adminUrl,
    isValue: value => value > 1 && value < 7,
    description: /rejected or did not store \d\.\d\d responses per second because limits\.inFlightMb was used up/,
    begin: () => {
      end = stage.repeat(200, async nth => await varve.get(newHistoryTarget(500 + nth % 400)))
    },
    fix: () => {
      end()
    }
  }
}
