import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { sendRequest } from '../support/client.js'
import { varveAtSandbox } from '../support/varve.js'

t.test('/metrics is compressed only for clients that accept gzip', async t => {
  const { varve } = await varveAtSandbox(t)
  const get = async (encoding: string | undefined, method = 'GET') =>
    await sendRequest(varve.adminUrl, '/metrics', {
      method,
      headers: encoding === undefined ? {} : { 'accept-encoding': encoding }
    })
  const plain = await get(undefined)
  t.match(plain.headers, {
    'content-type': /^text\/plain; version=0\.0\.4; charset=utf-8$/,
    'content-encoding': undefined,
    vary: 'Accept-Encoding'
  })
  t.match(plain.body, /^varve_cache_entries\{tier="memory"\} \d+$/m)
  const names = (text: string): string[] => text.split('\n').filter(line => line.startsWith('# TYPE'))
  for (const encoding of ['gzip', 'x-gzip', 'br, gzip', 'gzip;q=0.5', '*', 'deflate, gzip;q=1.0, *;q=0.5']) {
    const got = await get(encoding)
    t.match([got.status, got.headers], [200, {
      'content-type': plain.headers['content-type'],
      'content-encoding': 'gzip',
      vary: 'Accept-Encoding',
      'content-length': String(got.bytes.length)
    }], encoding)
    t.ok(got.bytes.length < plain.bytes.length / 3, `${got.bytes.length} bytes instead of ${plain.bytes.length}`)
    t.same(names(gunzipSync(got.bytes).toString()), names(plain.body), encoding)
  }
  for (const encoding of ['identity', 'br', 'gzip;q=0', '', 'deflate', 'identity, gzip;q=0.5', '*;q=0']) {
    const got = await get(encoding)
    t.match(
      [got.status, got.headers['content-encoding'], got.headers.vary],
      [200, undefined, 'Accept-Encoding'],
      encoding
    )
    t.same(names(got.body), names(plain.body), encoding)
  }
  t.match(await get('gzip', 'HEAD'), {
    status: 200,
    body: '',
    headers: { 'content-encoding': 'gzip', 'content-type': plain.headers['content-type'] }
  })
})
