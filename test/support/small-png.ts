import { crc32, deflateSync, inflateSync } from 'node:zlib'

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

/** Returns a screenshot with a palette of at most 256 colours, which takes a third of the bytes. */
export function smallPng (png: Buffer): Buffer {
  const { width, height, pixels } = pixelsOf(png)
  const { palette, indexes } = inPalette(pixels)
  const rows = Buffer.alloc((width + 1) * height)
  for (let y = 0; y < height; y++) {
    Buffer.from(indexes.subarray(y * width, (y + 1) * width)).copy(rows, y * (width + 1) + 1)
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 3, 0, 0, 0], 8)
  return Buffer.concat([
    signature,
    chunk('IHDR', head),
    chunk('PLTE', palette),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk('IEND', Buffer.alloc(0))
  ])
}

function pixelsOf (png: Buffer): { width: number, height: number, pixels: Buffer } {
  const parts: Buffer[] = []
  let [width, height, channels] = [0, 0, 3]
  for (let at = 8; at < png.length;) {
    const length = png.readUInt32BE(at)
    const type = png.toString('latin1', at + 4, at + 8)
    const body = png.subarray(at + 8, at + 8 + length)
    if (type === 'IHDR') [width, height, channels] = [body.readUInt32BE(0), body.readUInt32BE(4), body[9] === 6 ? 4 : 3]
    if (type === 'IDAT') parts.push(body)
    at += 12 + length
  }
  const raw = inflateSync(Buffer.concat(parts))
  const stride = width * channels
  const lines = Buffer.alloc(stride * height)
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)]
    for (let x = 0; x < stride; x++) {
      const left = x < channels ? 0 : lines[y * stride + x - channels] ?? 0
      const up = y === 0 ? 0 : lines[(y - 1) * stride + x] ?? 0
      const corner = x < channels || y === 0 ? 0 : lines[(y - 1) * stride + x - channels] ?? 0
      lines[y * stride + x] = (raw[y * (stride + 1) + 1 + x] ?? 0) + guessOf(filter, left, up, corner)
    }
  }
  const pixels = Buffer.alloc(width * height * 3)
  for (let at = 0; at < width * height; at++) lines.copy(pixels, at * 3, at * channels, at * channels + 3)
  return { width, height, pixels }
}

// Predictors of the format (PNG, 9.2).
function guessOf (filter: number | undefined, left: number, up: number, corner: number): number {
  switch (filter) {
    case 1:
      return left
    case 2:
      return up
    case 3:
      return (left + up) >> 1
    case 4: {
      const guess = left + up - corner
      const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)]
      if (a <= b && a <= c) return left
      return b <= c ? up : corner
    }
    default:
      return 0
  }
}

/**
 * Uses the most frequent colour of each range, so that small marks keep theirs, then the most frequent of all, up to
 * 256; every other becomes the nearest of them.
 */
function inPalette (pixels: Buffer): { palette: Buffer, indexes: Uint8Array } {
  const colours = new Map<number, number>()
  const colourAt = (at: number): number => pixels.readUIntBE(at * 3, 3)
  const count = pixels.length / 3
  for (let at = 0; at < count; at++) colours.set(colourAt(at), (colours.get(colourAt(at)) ?? 0) + 1)
  const byUse = [...colours].sort(([, a], [, b]) => b - a).map(([colour]) => colour)
  // Takes three bits of red, green and blue each as the range.
  const firstOfRange = new Map([...byUse].reverse().map(colour => [colour & 0xe0e0e0, colour]))
  const mostUsed = [...new Set([...firstOfRange.values(), ...byUse])].slice(0, 256)
  const nearest = new Map(mostUsed.map((colour, at) => [colour, at]))
  const indexes = new Uint8Array(count)
  for (let at = 0; at < count; at++) {
    const colour = colourAt(at)
    const known = nearest.get(colour) ??
      mostUsed.reduce(
        (best, other, index) => distance(other, colour) < distance(mostUsed[best] ?? 0, colour) ? index : best,
        0
      )
    nearest.set(colour, known)
    indexes[at] = known
  }
  const palette = Buffer.alloc(mostUsed.length * 3)
  mostUsed.forEach((colour, at) => {
    palette.writeUIntBE(colour, at * 3, 3)
  })
  return { palette, indexes }
}

function distance (a: number, b: number): number {
  return ((a >> 16) - (b >> 16)) ** 2 + ((a >> 8 & 255) - (b >> 8 & 255)) ** 2 + ((a & 255) - (b & 255)) ** 2
}

function chunk (type: string, body: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), body])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(body.length)
  sum.writeUInt32BE(crc32(named))
  return Buffer.concat([length, named, sum])
}
