import { type Draw } from './draw-session.js'
import { type WireStep } from './wire-session.js'

interface Piecemeal {
  readonly pieces: readonly string[]
  readonly responses: number
}

/**
 * Draws an attack on a varve that remembers bytes: pieces that look like whole known requests, yet continue another
 * one. Honest requests of the same connection stand between.
 */
export function drawStream (draw: Draw, gets: readonly string[], posts: readonly string[]): WireStep[] {
  const steps: WireStep[] = []
  let responses = 0
  for (let left = 1 + Math.floor(draw() * 6); left > 0; left--) {
    const drawn = drawPieces(draw, gets, posts)
    for (const send of drawn.pieces) if (send !== '') steps.push({ send })
    steps.push({ responses: responses += drawn.responses })
  }
  return [...steps, 'end']
}

function drawPieces (draw: Draw, gets: readonly string[], posts: readonly string[]): Piecemeal {
  const any = (from: readonly string[]): string => from[Math.floor(draw() * from.length)] ?? ''
  const known = any(draw() < 0.7 ? gets : posts)
  // Lets a second request follow the piece at times.
  const tail = draw() < 0.4 ? any(gets) : ''
  const tails = tail === '' ? 0 : 1
  const end = '\r\n\r\n'
  // Drops Host at times, which the piece has too.
  const carrier = any(gets).slice(0, -end.length).replace(draw() < 0.7 ? /Host: .*\r\n/ : /^$/, '')
  const [postHead = '', body = ''] = any(posts).split(/(?<=\r\n\r\n)/)
  const cut = Math.floor(draw() * (body.length + 1))
  switch (Math.floor(draw() * 8)) {
    case 0:
      return { pieces: [carrier + any(['\r\nX: ', '\r\nX:', '\r\n', '\r']), known + tail], responses: 1 + tails }
    case 1:
      return { pieces: [postHead + body.slice(0, cut), body.slice(cut) + known + tail], responses: 2 + tails }
    case 2:
      return { pieces: [`${carrier}\r\nContent-Length: ${known.length}${end}`, known + tail], responses: 1 + tails }
    case 3: {
      const size = known.length.toString(16)
      const head = `${carrier}\r\nTransfer-Encoding: chunked${end}`
      return { pieces: [head, `${size}\r\n`, known, `\r\n0${end}${tail}`], responses: 1 + tails }
    }
    case 4:
      return { pieces: [any(['\r\n', '\n', '\r\n\r\n']), known + tail], responses: 1 + tails }
    case 5: {
      const at = Math.floor(draw() * known.length)
      return { pieces: [known.slice(0, at), known.slice(at) + tail], responses: 1 + tails }
    }
    default:
      return { pieces: [known + tail], responses: 1 + tails }
  }
}
