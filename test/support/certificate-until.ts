import { sign, X509Certificate } from 'node:crypto'
import { certificate, certificateKey } from './certificate.js'

/** Returns the certificate of the tests with another end date, signed again with its own key. */
export function certificateUntil (end: Date): string {
  const before = new X509Certificate(certificate).raw
  // Splits SEQUENCE { SEQUENCE { signed part }, algorithm, signature }, longer than 127 bytes and shorter than 65,536.
  const signed = Buffer.from(element(before, contentAt(before, 0)))
  const algorithm = element(before, contentAt(before, 0) + signed.length)
  // Finds the end date: it has a year of four digits, and the start date one of two, so this form occurs once.
  const notAfter = signed.indexOf(Buffer.from([0x18, 0x0f]))
  signed.write(end.toISOString().replace(/[-:T]|\.\d+/g, ''), notAfter + 2, 'latin1')
  const signature = wrapped(0x03, Buffer.concat([Buffer.from([0]), sign('sha256', signed, certificateKey)]))
  const whole = wrapped(0x30, Buffer.concat([signed, algorithm, signature]))
  return `-----BEGIN CERTIFICATE-----\n${
    whole.toString('base64').replace(/.{64}/g, '$&\n')
  }\n-----END CERTIFICATE-----\n`
}

function lengthAt (der: Buffer, at: number): { readonly length: number, readonly size: number } {
  const first = der.readUInt8(at + 1)
  return first < 0x80
    ? { length: first, size: 2 }
    : { length: der.readUIntBE(at + 2, first & 0x7f), size: 2 + (first & 0x7f) }
}

function contentAt (der: Buffer, at: number): number {
  return at + lengthAt(der, at).size
}

function element (der: Buffer, at: number): Buffer {
  const { length, size } = lengthAt(der, at)
  return der.subarray(at, at + size + length)
}

function wrapped (tag: number, content: Buffer): Buffer {
  const { length } = content
  return Buffer.concat([
    Buffer.from(
      length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff]
    ),
    content
  ])
}
