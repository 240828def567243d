import { type WireStep } from './wire-session.js'

/** Returns the next random number from 0 to 1. */
export type Draw = () => number

/** Returns a repeatable source of random numbers (mulberry32). */
export function drawFrom (seed: number): Draw {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const lastRequest = 'GET /-/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'

/** Draws the steps of one connection: requests that are kept apart, split, pipelined, half-closed or reset. */
export function drawSession (draw: Draw, requests: readonly string[]): WireStep[] {
  const steps: WireStep[] = []
  let responses = 0
  for (let left = 1 + Math.floor(draw() * 10); left > 0; left--) {
    const batch = draw() < 0.85 ? 1 : 2 + Math.floor(draw() * 3)
    const sent = Array.from({ length: batch }, () => requests[Math.floor(draw() * requests.length)] ?? '')
    steps.push(...piecesOf(draw, sent.join('')).map(send => ({ send })))
    // Sends the next batch early at times.
    responses += batch
    if (draw() < 0.9) steps.push({ responses })
  }
  const end = draw()
  if (end < 0.15) return [...steps, { responses }, { send: 'GET /v1/acc' }, 'reset']
  if (end < 0.4) return [...steps, 'end']
  return [...steps, { send: lastRequest }]
}

function piecesOf (draw: Draw, text: string): string[] {
  if (draw() < 0.8) return [text]
  const cuts = Array.from({ length: 1 + Math.floor(draw() * 2) }, () => Math.floor(draw() * text.length)).sort((a, b) =>
    a - b
  )
  return [...cuts, text.length].map((cut, at) => text.slice(at === 0 ? 0 : cuts[at - 1], cut)).filter(piece =>
    piece !== ''
  )
}
